//! Forms of files × traffic × commands.

use std::path::Path;

use tempfile::tempdir;
use wirelane_testkit::process::output;

use crate::answer::{self, Line};
use crate::cells::{Cells, Outcome, Told, difference};
use crate::commands::{COMMANDS, Command};
use crate::forms::{FORMS, Form, Given, OTHER};
use crate::shared::{WIRELANE, wirelane};
use crate::traffic::{Packet, TRAFFIC, Traffic};

#[test]
fn every_form_of_a_file_gives_the_same_answers() {
    let rows = TRAFFIC.iter().enumerate();
    Cells::of_rows(rows, |(number, traffic)| of_traffic(number, traffic)).finish();
}

fn of_traffic(number: usize, traffic: &Traffic) -> Cells {
    let mut cells = Cells::default();
    let packets = (traffic.make)();
    let types = packets.iter().any(|packet| packet.link_type != packets[0].link_type);
    let decreasing = !packets.is_sorted_by_key(|packet| packet.time);
    let first = answers(&FORMS[0], &packets);
    for (command, outcome) in COMMANDS.iter().zip(&first) {
        if types && !command.types {
            continue;
        }
        let difference =
            if decreasing && command.is_first() { None } else { wrong(command, &packets, outcome) };
        cells.add([FORMS[0].name, traffic.name, command.name], difference);
    }
    let others = FORMS.iter().enumerate().skip(1).filter(|(at, form)| {
        let is_sample = !form.sampled || at % 3 == number % 3;
        is_sample && (form.types || !types)
    });
    for (_, form) in others {
        let told = told(form);
        for ((command, expected), outcome) in
            COMMANDS.iter().zip(&first).zip(answers(form, &packets))
        {
            if cannot_tell(form, command, types, decreasing) {
                continue;
            }
            let difference = difference(expected, &outcome, told);
            cells.add([form.name, traffic.name, command.name], difference);
        }
    }
    cells
}

/// Whether the form and the command have no answer to compare.
pub(crate) fn cannot_tell(form: &Form, command: &Command, types: bool, decreasing: bool) -> bool {
    form.given == Given::Two && !command.several
        || types && !command.types
        || !form.queues && command.name == "count by queue"
        || decreasing && form.sorts && command.keeps_order()
}

pub(crate) fn told(form: &Form) -> Told {
    Told { times: true, places: form.queues, order: true }
}

pub(crate) fn answers(form: &Form, packets: &[Packet]) -> Vec<Outcome> {
    let directory = tempdir().unwrap();
    let file = (form.write)(packets, directory.path());
    COMMANDS.iter().map(|command| run(command, &file, form.given)).collect()
}

/// Runs the command lines on the file.
pub(crate) fn run(command: &Command, file: &Path, given: Given) -> Outcome {
    let directory = tempdir().unwrap();
    let pipe = given == Given::Pipe;
    let file_name = file.display().to_string();
    let names = match given {
        Given::File => vec![file_name],
        Given::Pipe => vec!["-".into()],
        Given::Two => vec![file_name, file.with_file_name(OTHER).display().to_string()],
    };
    let ports: Vec<_> = names.iter().map(|name| format!("file:{name}")).collect();
    let (names, ports) = (names.join(" "), ports.join(" "));
    let mut printed = String::new();
    for (number, line) in command.lines.iter().enumerate() {
        let line = line.replace("IN", &ports).replace("FILE", &names);
        let mut command = wirelane(line.split(' '));
        if pipe && number == 0 {
            command = std::process::Command::new("sh");
            command.args(["-c", r#"cat "$INPUT" | "$0" "$@""#, WIRELANE]).args(line.split(' '));
            command.env("INPUT", file);
        }
        let ended = output(command.current_dir(&directory));
        if !ended.status.success() {
            return Err(format!("`{line}` ends with {}: {}", ended.status, ended.stderr.trim()));
        }
        printed = ended.stdout;
    }
    Ok((command.answer)(&printed, directory.path()))
}

/// Compares packets with the written ones; other answers must only contain something.
fn wrong(command: &Command, packets: &[Packet], outcome: &Outcome) -> Option<String> {
    let lines = match outcome {
        Ok(lines) => lines,
        Err(error) => return Some(error.clone()),
    };
    if lines.is_empty() {
        // The first packets may belong to no flow.
        return (!command.is_first()).then(|| "nothing".into());
    }
    let lengths = |lines: &[Line]| -> Vec<String> {
        let mut lengths: Vec<_> = lines.iter().map(|line| line.text.clone()).collect();
        lengths.sort();
        lengths
    };
    let mut expected: Vec<_> = packets.iter().map(answer::of_packet).collect();
    if command.is_first() {
        expected.sort_by(|a, b| a.time.cmp(&b.time));
        expected.truncate(7);
    }
    // `send` replaces missing bytes by zeros.
    let is_whole = packets.iter().all(|it| it.original_len == it.data.len() as u32);
    let is_of_packets = lines[0].text.contains("hash") && (is_whole || command.name != "send");
    let is_wrong = is_of_packets && lengths(&expected) != lengths(lines);
    is_wrong.then(|| format!("{} other packets than the {} written", lines.len(), expected.len()))
}
