//! The list of properties, and the code that runs a property on a bed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::bed::Bed;
use crate::session::Verified;
use crate::threads;

/// A property. Its result proves that there was traffic.
pub(crate) type Property = fn(&mut dyn Bed) -> Verified;

/// A property that takes longer is considered to hang. Properties take less than a second, or
/// minutes on an overloaded machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs a property in a separate thread, on the bed that `lay` makes.
///
/// # Panics
/// When it does not hold, hangs, or moves no frame; the message names the property and the bed.
pub(crate) fn run<B: Bed + 'static>(
    bed_name: &'static str,
    name: &'static str,
    lay: fn() -> B,
    property: Property,
) {
    let (done, result) = mpsc::channel::<Result<Verified, Box<dyn Any + Send>>>();
    thread::Builder::new()
        .name(format!("{bed_name}::{name}"))
        .spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut bed = lay();
                threads::stay();
                property(&mut bed)
            }));
            // After the limit, the receiver no longer exists.
            let _ = done.send(outcome);
        })
        .unwrap();
    match result.recv_timeout(LIMIT) {
        Ok(Ok(verified)) => {
            let frames = verified.frames();
            assert!(frames > 0, "property {name} verified no frame on {bed_name}");
        }
        Ok(Err(panic)) => {
            eprintln!("property {name} does not hold on {bed_name}");
            resume_unwind(panic);
        }
        Err(_) => panic!("property {name} hangs on {bed_name}: no end after {LIMIT:?}"),
    }
}

/// Generates one test per property on a bed: `plain` or `privileged`.
macro_rules! contract {
    ($bed:ident, $kind:ident, $lay:expr) => {
        mod $bed {
            $crate::suite::properties!($crate::suite::$kind, $bed, $lay);
        }
    };
}

/// Calls `$test!` for every property.
macro_rules! properties {
    ($test:path, $bed:ident, $lay:expr) => {
        $crate::suite::each! { $test, $bed, $lay;
            info: info_is_complete, privileged_info_is_complete;
            info: ends_are_handed_out_once, privileged_ends_are_handed_out_once;
            receive: nothing_comes_before_the_start, privileged_nothing_comes_before_the_start;
            receive: every_frame_arrives_once, privileged_every_frame_arrives_once;
            receive: batches_are_filled_as_far_as_they_go, privileged_batches_are_filled_as_far_as_they_go;
            receive: a_vlan_tag_stays_or_a_note_says_so, privileged_a_vlan_tag_stays_or_a_note_says_so;
            receive: the_snap_length_cuts, privileged_the_snap_length_cuts;
            receive: times_and_watermarks_are_honest, privileged_times_and_watermarks_are_honest;
            receive: waiting_ends_when_a_frame_comes, privileged_waiting_ends_when_a_frame_comes;
            receive: queues_are_received_on_threads, privileged_queues_are_received_on_threads;
            hold: held_frames_stay_whole, privileged_held_frames_stay_whole;
            hold: reception_recovers_after_a_pause, privileged_reception_recovers_after_a_pause;
            hold: reception_recovers_when_all_was_held, privileged_reception_recovers_when_all_was_held;
            hold: frames_come_home_from_other_threads, privileged_frames_come_home_from_other_threads;
            hold: frames_outlive_their_port, privileged_frames_outlive_their_port;
            mask: unselected_queues_are_invisible, privileged_unselected_queues_are_invisible;
            mask: masks_change_under_traffic, privileged_masks_change_under_traffic;
            mask: queues_that_are_not_there_are_refused, privileged_queues_that_are_not_there_are_refused;
            mask: the_other_classes_are_seen_or_refused, privileged_the_other_classes_are_seen_or_refused;
            mask: a_part_of_the_queues_can_be_opened, privileged_a_part_of_the_queues_can_be_opened;
            transmit: every_frame_is_sent_once, privileged_every_frame_is_sent_once;
            transmit: foreign_frames_are_sent, privileged_foreign_frames_are_sent;
            transmit: long_frames_are_errors, privileged_long_frames_are_errors;
            transmit: what_does_not_fit_stays, privileged_what_does_not_fit_stays;
            transmit: own_frames_run_out_and_come_back, privileged_own_frames_run_out_and_come_back;
            transmit: queues_transmit_on_threads, privileged_queues_transmit_on_threads;
            transmit: both_ways_on_two_threads, privileged_both_ways_on_two_threads;
            drain: a_drained_end_has_sent_everything, privileged_a_drained_end_has_sent_everything;
            drain: a_dropped_end_sends_what_it_took, privileged_a_dropped_end_sends_what_it_took;
            drain: a_full_end_that_is_dropped_counts_every_frame, privileged_a_full_end_that_is_dropped_counts_every_frame;
            drain: an_end_dropped_without_a_link_counts_every_frame, privileged_an_end_dropped_without_a_link_counts_every_frame;
            forward: received_frames_go_back_with_their_addresses_swapped, privileged_received_frames_go_back_with_their_addresses_swapped;
            forward: received_frames_leave_through_another_port, privileged_received_frames_leave_through_another_port;
            life: what_is_in_the_rings_is_received_after_the_stop, privileged_what_is_in_the_rings_is_received_after_the_stop;
            life: a_stop_in_the_middle_of_traffic_ends, privileged_a_stop_in_the_middle_of_traffic_ends;
            life: a_dropped_port_is_stopped, privileged_a_dropped_port_is_stopped;
            life: a_port_that_was_never_started_ends, privileged_a_port_that_was_never_started_ends;
            life: ports_open_again_at_once, privileged_ports_open_again_at_once;
            life: a_port_dropped_in_the_middle_of_traffic_leaves_nothing, privileged_a_port_dropped_in_the_middle_of_traffic_leaves_nothing;
        }
    };
}

macro_rules! each {
    ($test:path, $bed:ident, $lay:expr; $($file:ident: $plain:ident, $privileged:ident;)*) => {
        $( $test!($bed, $lay, $crate::properties::$file::$plain, $plain, $privileged); )*
    };
}

/// A test that needs no privileges.
macro_rules! plain {
    ($bed:ident, $lay:expr, $property:path, $plain:ident, $privileged:ident) => {
        #[test]
        fn $plain() {
            #[allow(unused_imports, reason = "the expression names beds")]
            use $crate::beds;
            $crate::suite::run(stringify!($bed), stringify!($plain), $lay, $property);
        }
    };
}

/// A test that creates network interfaces.
macro_rules! privileged {
    ($bed:ident, $lay:expr, $property:path, $plain:ident, $privileged:ident) => {
        #[test]
        fn $privileged() {
            #[allow(unused_imports, reason = "the expression names beds")]
            use $crate::beds;
            if !wirelane_testkit::privileged::require() {
                return;
            }
            $crate::suite::run(stringify!($bed), stringify!($plain), $lay, $property);
        }
    };
}

pub(crate) use {contract, each, plain, privileged, properties};
