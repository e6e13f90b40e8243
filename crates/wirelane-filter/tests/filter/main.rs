//! Filters: all engines agree on every packet, over a corpus of expressions and over random
//! programs.
//!
//! `corpus.rs` reads `expressions.txt`, `packets.rs` makes the packets, `programs.rs` makes random
//! programs, and `engines.rs` lists what is compared.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod corpus;
mod dice;
mod engines;
mod packets;
mod programs;
mod tags;

use wirelane_filter::op::{Alu, Cond, Op, Operand, Width};
use wirelane_filter::{Packet, Program, compile};
use wirelane_testkit::privileged;

use self::corpus::Expression;
use self::dice::Dice;
use self::engines::Engine;

/// Bytes that compiled expressions accept.
const SNAPLEN: u32 = 262_144;

#[test]
fn every_expression_means_the_same_to_every_engine() {
    let engines = engines::unprivileged();
    agree_on_the_corpus(&engines);
}

#[test]
fn privileged_the_verifier_accepts_every_expression_and_the_kernel_agrees() {
    if !privileged::require() {
        return;
    }
    agree_on_the_corpus(&[Engine::INTERPRETER, Engine::XDP, Engine::XDP_FRAGMENTS]);
}

#[test]
fn random_programs_mean_the_same_to_every_engine() {
    agree_on_random_programs(&engines::unprivileged(), 300_000, 1);
}

#[test]
fn privileged_the_verifier_accepts_random_programs_and_the_kernel_agrees() {
    if !privileged::require() {
        return;
    }
    agree_on_random_programs(&[Engine::INTERPRETER, Engine::XDP], 50_000, 2);
}

/// An impossible comparison of A with X leaves the verifier with contradictory bounds of X.
#[test]
fn privileged_the_verifier_accepts_code_that_is_never_reached() {
    if !privileged::require() {
        return;
    }
    let equal = Op::Branch { cond: Cond::Equal, operand: Operand::X, jt: 0, jf: 1 };
    let greater = Op::Branch { cond: Cond::Greater, operand: Operand::X, jt: 0, jf: 2 };
    let ops = [
        Op::LoadXHeader(14),
        Op::LoadAbsolute(Width::Word, 0),
        Op::Alu(Alu::Shl, Operand::K(27)),
        greater,
        equal,
        Op::LoadIndirect(Width::Word, 16),
        Op::Return(1),
    ];
    let program = Program::new(1, ops.iter().map(|op| op.encode()).collect()).unwrap();
    let packets = packets::corpus();
    let packets: Vec<_> = packets.iter().map(|packet| packet.as_slice()).collect();
    assert!(agree(&[Engine::INTERPRETER, Engine::XDP], "dead code", &program, &packets) > 0);
}

/// The long run:
/// `WIRELANE_FILTER_PAIRS=10000000 cargo test --release -p wirelane-filter --test filter -- --ignored`.
#[test]
#[ignore = "takes minutes; WIRELANE_FILTER_PAIRS says how many pairs"]
fn privileged_differential_fuzzing_at_length() {
    if !privileged::require() {
        return;
    }
    let pairs = std::env::var("WIRELANE_FILTER_PAIRS");
    let pairs = pairs.ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(10_000_000);
    let mut engines = engines::unprivileged();
    engines.push(Engine::XDP);
    agree_on_random_programs(&engines, pairs, 3);
}

#[test]
fn the_corpus_is_large_enough() {
    assert!(corpus::expressions().len() >= 500);
    let chain = |expression: &Expression| expression.text.matches(" or ").count();
    assert!(corpus::expressions().iter().map(chain).max() >= Some(100));
}

#[test]
fn disassembly_and_decimals_are_those_of_tcpdump() {
    if !wirelane_testkit::tools::require("tcpdump") {
        return;
    }
    let tcpdump = |flag: &str, expression: &str| {
        let output = std::process::Command::new("tcpdump")
            .args(["-y", "EN10MB", flag, expression])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ethernet = corpus::expressions().into_iter().filter(|e| e.link_type == 1);
    // The compiled program depends on whether tcpdump could open an interface.
    for expression in ethernet.step_by(11).filter(|e| !e.text.contains("vlan")) {
        let program = compile(&expression.text, 1, SNAPLEN).unwrap().of_kernel().clone();
        assert_eq!(program.to_string(), tcpdump("-d", &expression.text), "{}", expression.text);
        let decimal = program.decimal().to_string();
        assert_eq!(decimal, tcpdump("-ddd", &expression.text), "{}", expression.text);
        assert_eq!(Program::parse(1, &decimal).unwrap(), program);
        assert_eq!(Program::parse(1, &decimal.replace('\n', ",")).unwrap(), program);
    }
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    for expression in ["ip6 protochain 6", "ip protochain 51", "protochain 58"] {
        let error = compile(expression, 1, SNAPLEN).unwrap_err().to_string();
        assert!(error.contains("no loops"), "{error}");
    }
    let error = compile("ether[0 - 1] = 0", 1, SNAPLEN).unwrap_err().to_string();
    assert!(error.contains("offset -1 is before the packet"), "{error}");
}

fn agree_on_the_corpus(engines: &[Engine]) {
    let packets = packets::corpus();
    let mut pairs = 0u64;
    let mut accepted = 0u64;
    for Expression { text, link_type } in corpus::expressions() {
        let program = match compile(&text, link_type, SNAPLEN) {
            Ok(program) => program,
            Err(error) => panic!("{error}"),
        };
        let packets: Vec<_> = match link_type {
            1 => packets.iter().map(|packet| packet.as_slice()).collect(),
            _ => packets.iter().filter_map(|packet| packet.get(14..)).collect(),
        };
        accepted += agree(engines, &text, &program, &packets);
        pairs += packets.len() as u64;
    }
    eprintln!("{pairs} pairs, {accepted} accepted");
    assert!(accepted > pairs / 20 && accepted < pairs, "{accepted} of {pairs}");
}

fn agree_on_random_programs(engines: &[Engine], pairs: u64, seed: u64) {
    let corpus = packets::corpus();
    let mut dice = Dice::new(seed);
    let (mut done, mut accepted) = (0, 0);
    while done < pairs {
        let program = programs::random(&mut dice);
        let some: Vec<_> =
            (0..64).map(|_| corpus[dice.below(corpus.len() as u32) as usize].as_slice()).collect();
        accepted += agree(engines, "random", &program, &some);
        done += some.len() as u64;
    }
    eprintln!("{done} pairs, {accepted} accepted");
    assert!(accepted > done / 20 && accepted < done, "{accepted} of {done}");
}

/// All engines that can run the program give the same answer for every packet; how many packets the
/// program accepts.
#[track_caller]
fn agree(engines: &[Engine], text: &str, program: &Program, packets: &[&[u8]]) -> u64 {
    let mut accepted = 0;
    let prepared: Vec<_> =
        engines.iter().map(|engine| (engine, (engine.prepare)(program))).collect();
    for data in packets {
        let packet = Packet { data, wire_len: data.len() as u32, metadata: engines::METADATA };
        let mut expected = None;
        for (engine, run) in &prepared {
            let Some(result) = run.as_ref().and_then(|run| run(&packet)) else { continue };
            let expected = *expected.get_or_insert(result);
            // A kernel socket only reports the length that it keeps; the result of the program is
            // hidden.
            let same = match engine.is_cut {
                true => result == expected.min(packet.wire_len),
                false => result == expected,
            };
            assert!(
                same,
                "{}: {result}, not {expected} for {data:02x?}\n{text}\n{program}",
                engine.name
            );
        }
        accepted += u64::from(expected.is_some_and(|result| result > 0));
    }
    accepted
}
