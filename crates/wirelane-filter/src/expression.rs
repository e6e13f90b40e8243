//! Expressions of pcap-filter(7), compiled by libpcap.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ops::Range;
use std::thread;

use crate::check::{self, MAX_INSTRUCTIONS};
use crate::error::{Error, Result};
use crate::instruction::Instruction;
use crate::libpcap::{self, Libpcap, View};
use crate::links;
use crate::op::Op;
use crate::program::Program;
use crate::tag;

/// Compiles `expression` for packets of `link_type` (the registry of capture files: 1 is Ethernet),
/// to a program that accepts `snaplen` bytes.
///
/// The expression has the same meaning as in tcpdump on an interface. There the kernel removes the
/// outer VLAN tag of a packet; the program finds the tag in the bytes ([`Program::for_bytes`]), so
/// `udp` is also true of tagged packets. An empty expression accepts every packet. Names of hosts
/// are looked up, as in tcpdump.
///
/// # Errors
/// libpcap's message and the place in the expression, or the package to install if there is no
/// libpcap. A program that breaks the kernel's rules: it is too long, or contains a loop, which
/// libpcap generates for `protochain`.
pub fn compile(expression: &str, link_type: u16, snaplen: u32) -> Result<Program> {
    Ok(built(expression, link_type, snaplen)?)
}

fn built(expression: &str, link_type: u16, snaplen: u32) -> Result<Program, Complaint> {
    let fail = |message: String| Complaint::new(expression, message);
    let library = libpcap::library().map_err(|reason| {
        fail(format!("no libpcap to compile it: {reason}")).help(libpcap::INSTALL)
    })?;
    let text = CString::new(expression).map_err(|error| {
        let at = error.nul_position();
        fail("it holds a NUL byte".to_owned()).at(at..at + 1)
    })?;
    // Only `vlan` compiles to different code.
    let is_beside = tag::position(link_type).is_some();
    let view = if is_beside && expression.contains("vlan") { View::Kernel } else { View::Bytes };
    let link = links::dlt(link_type);
    let compiler = Compiler { library, link_type: link, view, snaplen };
    let compile = |compiler: &Compiler| {
        let plain = compiler.compile(&text, false)?;
        if plain.len() > MAX_PLAIN {
            let len = plain.len();
            return Err(format!(
                "{len} instructions before they are optimised, and the limit is {MAX_PLAIN}"
            ));
        }
        compiler.compile(&text, true).map(cleared)
    };
    // libpcap walks its graph of blocks recursively, with at least one block for every few bytes.
    let compile = |compiler: &Compiler| {
        if expression.len() < SHORT {
            return compile(compiler);
        }
        thread::scope(|scope| {
            let thread = thread::Builder::new();
            let thread = thread.stack_size(STACK).spawn_scoped(scope, || compile(compiler));
            let thread = thread.map_err(|error| format!("no thread to compile it: {error}"))?;
            thread.join().unwrap_or_else(|_| Err("it cannot be compiled".to_owned()))
        })
    };
    let refused = |error: Error| fail(error.cause().to_owned());
    match compile(&compiler) {
        Ok(instructions) => {
            let program = Program::new(link_type, instructions).map_err(refused)?;
            if is_beside { program.for_bytes().map_err(refused) } else { Ok(program) }
        }
        Err(message) if message == libpcap::NO_FLAGS => {
            let compiler = Compiler { view: View::Bytes, ..compiler };
            let instructions = compile(&compiler);
            let instructions =
                instructions.map_err(|message| compiler.explain(expression, &message))?;
            Ok(Program::new(link_type, instructions).map_err(refused)?.noted(IN_BYTES))
        }
        Err(message) => Err(compiler.explain(expression, &message)),
    }
}

/// Sets scratch memory to 0 that a program loads before any store. libpcap adds to such a cell in
/// kernel programs such as `vlan and pppoes`, which the kernel refuses: it clears another cell
/// twice instead (`gen_vlan_bpf_extensions`, libpcap 1.10).
fn cleared(mut program: Vec<Instruction>) -> Vec<Instruction> {
    let Some(ops) = check::forgetful(&program) else { return program };
    let loads = ops.iter().filter_map(|op| match *op {
        Op::LoadMemory(cell) | Op::LoadXMemory(cell) => Some(cell),
        _ => None,
    });
    let cells: BTreeSet<_> = loads.collect();
    let clear = cells.into_iter().map(Op::Store);
    program.splice(0..0, [Op::LoadImmediate(0)].into_iter().chain(clear).map(Op::encode));
    program
}

/// The note for an expression with `vlan`, if libpcap cannot compile it for the kernel's view.
const IN_BYTES: &str = "this version of libpcap is not known well enough: the filter looks for the \
                        outer VLAN tag in the packet, so `udp` without `vlan` does not match \
                        tagged packets";

/// The time of libpcap's optimiser grows with the third power of the length: about a minute for
/// this length. It seldom makes a program shorter than a third.
const MAX_PLAIN: usize = 4 * MAX_INSTRUCTIONS;

/// Shorter expressions, in bytes, are compiled on the caller's stack.
const SHORT: usize = 2048;

/// The stack for the longest expression for which libpcap has memory.
const STACK: usize = 64 << 20;

/// Why an expression cannot be compiled.
#[derive(Debug)]
struct Complaint {
    expression: String,
    /// The message of libpcap, or an error found before libpcap was called.
    message: String,
    /// Bytes of the expression.
    span: Option<Range<usize>>,
    help: Option<&'static str>,
}

impl Complaint {
    fn new(expression: &str, message: String) -> Self {
        Self { expression: expression.to_owned(), message, span: None, help: None }
    }

    fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    fn help(mut self, help: &'static str) -> Self {
        self.help = Some(help);
        self
    }
}

/// One line, the place as a column.
impl From<Complaint> for Error {
    fn from(complaint: Complaint) -> Self {
        let Complaint { expression, mut message, span, help } = complaint;
        if let Some(span) = &span {
            match expression.get(span.clone()).filter(|token| !token.is_empty()) {
                Some(token) => {
                    let column = expression.get(..span.start).map_or(0, |t| t.chars().count()) + 1;
                    if !message.contains(token) {
                        message += &format!(" at \"{token}\"");
                    }
                    message += &format!(" (column {column})");
                }
                None => message += " at its end",
            }
        }
        // A long expression would hide the error message.
        let mut object = expression.chars().take(LONGEST).collect::<String>();
        if object.len() < expression.len() {
            object.push('…');
        }
        let error = Error::invalid(format!("filter \"{object}\""), message);
        let error = error.help(help.unwrap_or("see pcap-filter(7)"));
        match span {
            Some(span) => error.at(expression, span),
            None => error,
        }
    }
}

/// The number of characters of an expression that an error repeats.
const LONGEST: usize = 200;

struct Compiler {
    library: &'static Libpcap,
    link_type: i32,
    view: View,
    snaplen: u32,
}

impl Compiler {
    fn compile(&self, expression: &CString, optimize: bool) -> Result<Vec<Instruction>, String> {
        let snaplen = i32::try_from(self.snaplen).unwrap_or(i32::MAX);
        self.library.compile(expression, (self.link_type, self.view), snaplen, optimize)
    }

    /// Finds the place in the expression that libpcap's message is about.
    fn explain(&self, expression: &str, message: &str) -> Complaint {
        let plain = message.trim_start_matches("can't parse filter expression: ");
        let error = Complaint::new(expression, plain.to_owned());
        let span = match named(plain).and_then(|name| Some((name, expression.find(name)?))) {
            // The message quotes a word that occurs once in the expression.
            Some((name, at)) if expression.rfind(name) == Some(at) => Some(at..at + name.len()),
            _ => self.find(expression, message),
        };
        match span {
            Some(span) => error.at(span),
            None => error,
        }
    }

    /// The token that the parser rejects, or before which it finds the earlier tokens invalid.
    ///
    /// This is an LALR parser: it reports the first token that cannot follow. So this code appends
    /// a number too large for 32 bits to the first tokens. The scanner rejects that number with a
    /// separate message, which means that the parser accepted all tokens before it. The shortest
    /// beginning without that message ends in the rejected token.
    fn find(&self, expression: &str, message: &str) -> Option<Range<usize>> {
        let all_taken = |beginning: &str| -> Option<bool> {
            let text = CString::new(format!("{beginning} {PROBE}")).ok()?;
            let answer = self.compile(&text, false).err()?;
            Some(answer.contains(PROBE))
        };
        // Before libpcap 1.10, the scanner accepts such a number.
        if expression.len() > LONGEST_SEARCHED
            || expression.contains(PROBE)
            || message.contains(PROBE)
            || !all_taken("")?
        {
            return None;
        }
        let tokens = tokens(expression);
        // A binary search: the parser does not read past a rejected token.
        let (mut taken, mut refused) = (0, tokens.len() + 1);
        while taken + 1 < refused {
            let middle = taken.midpoint(refused);
            let end = tokens.get(middle - 1)?.end;
            if all_taken(expression.get(..end)?)? { taken = middle } else { refused = middle }
        }
        let end = expression.trim_end().len();
        Some(tokens.get(refused - 1).cloned().unwrap_or(end..end))
    }
}

/// The longest expression, in bytes, in which a place is searched; the search takes a dozen
/// compilations.
const LONGEST_SEARCHED: usize = 16 << 10;

/// A number that the scanner rejects.
const PROBE: &str = "99999999999";

/// The text between quotes in a message.
fn named(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once('\'')?;
    let (name, _) = rest.split_once('\'')?;
    Some(name).filter(|name| !name.is_empty())
}

/// The words and operators of an expression. A word may contain several of libpcap's tokens (as
/// `[0:2]`, or `a-b`); the place of an error is then a little less exact.
fn tokens(expression: &str) -> Vec<Range<usize>> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Space,
        Word,
        Bracket,
        Operator,
    }
    let kind = |c: char| match c {
        c if c.is_whitespace() => Kind::Space,
        '(' | ')' | '[' | ']' => Kind::Bracket,
        '!' | '<' | '>' | '=' | '&' | '|' | '+' | '*' | '%' | '^' => Kind::Operator,
        _ => Kind::Word,
    };
    let mut tokens: Vec<Range<usize>> = Vec::new();
    let mut last = Kind::Space;
    for (at, c) in expression.char_indices() {
        let (this, end) = (kind(c), at + c.len_utf8());
        match tokens.last_mut() {
            _ if this == Kind::Space => {}
            Some(token) if this == last && this != Kind::Bracket => token.end = end,
            _ => tokens.push(at..end),
        }
        last = this;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caret(expression: &str) -> (String, String) {
        let complaint = built(expression, 1, 65_535).unwrap_err();
        let message = complaint.message.clone();
        let caret = Error::from(complaint).caret().unwrap_or_default();
        (message, caret.lines().nth(1).unwrap_or_default().to_owned())
    }

    #[test]
    fn errors_show_the_place() {
        for (expression, message, marks) in [
            ("tcp prot 80", "syntax error", "    ^~~~"),
            ("tcp and", "syntax error", "       ^"),
            ("tcp)", "syntax error", "   ^"),
            ("(tcp", "syntax error", "    ^"),
            ("host 10.0.0.1 and @ udp", "syntax error", "                  ^"),
            ("tcp or host 1.2.3.400", "invalid IPv4 address '1.2.3.400'", "            ^~~~~~~~~"),
            ("ip and tcp port foo", "unknown port 'foo'", "                ^~~"),
            ("ip[1:3]=2", "data size must be 1, 2, or 4", "      ^"),
            ("tcp and vlan 5000", "VLAN tag 5000 greater than maximum 4095", "             ^~~~"),
            ("wlan\ttype @", "syntax error", "          ^"),
        ] {
            assert_eq!(caret(expression), (message.to_owned(), marks.to_owned()), "{expression}");
        }
    }

    #[test]
    fn errors_are_one_line() {
        for expression in
            ["tcp\n\nprot\x1b[1m", "tcp \0 udp", "tcp prot ä", "\u{7f}", &"tcp @ ".repeat(999)]
        {
            let error = compile(expression, 1, 65_535).unwrap_err();
            assert!(!error.to_string().contains(char::is_control), "{error}");
            assert!(error.caret().is_none_or(|caret| caret.lines().count() == 2));
            assert!(error.to_string().len() < 2000, "{error}");
        }
        assert_eq!(compile("tcp \0 udp", 1, 96).unwrap_err().span(), Some(4..5));
    }

    #[test]
    fn what_is_too_long_is_refused_with_the_number() {
        let chain = |n: u32| {
            let hosts: Vec<_> =
                (0..n).map(|i| format!("dst host 10.0.{}.{}", i >> 8, i & 255)).collect();
            hosts.join(" or ")
        };
        assert!(compile(&chain(50), 1, 96).unwrap().instructions().len() > 50);
        let error = compile(&chain(3000), 1, 96).unwrap_err().to_string();
        assert!(error.contains("the limit is 16384"), "{error}");
        let error = compile(&chain(40_000), 1, 96).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }

    #[test]
    fn an_empty_expression_accepts_everything() {
        let program = compile("", 1, 96).unwrap();
        assert_eq!(program.to_string(), "(000) ret      #96\n");
    }

    #[test]
    fn link_types_without_a_link_header() {
        let program = compile("ip", 101, 96).unwrap();
        assert!(program.to_string().contains("ldb      [0]"), "{program}");
        assert_eq!(program.link_type(), 101);
    }
}
