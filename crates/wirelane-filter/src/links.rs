//! Link types by libpcap's numbers (`DLT_…`) and by the numbers in capture files (`LINKTYPE_…`),
//! which differ for a few old types (`pcap-common.c`).

/// `DLT_…` and `LINKTYPE_…` that differ.
const DIFFERENT: [(i32, u16); 5] = [(11, 100), (12, 101), (15, 102), (16, 103), (19, 106)];

/// libpcap's number for a link type of files.
#[must_use]
pub fn dlt(link_type: u16) -> i32 {
    let different = DIFFERENT.iter().find(|(_, in_files)| *in_files == link_type);
    different.map_or(link_type.into(), |(dlt, _)| *dlt)
}

/// The number in files for libpcap's link type; `None` if files have no number for it.
#[must_use]
pub fn link_type(dlt: i32) -> Option<i32> {
    if let Some((_, in_files)) = DIFFERENT.iter().find(|(different, _)| *different == dlt) {
        return Some((*in_files).into());
    }
    matches!(dlt, 0..=10 | 50 | 51 | 99 | 104..=289).then_some(dlt)
}
