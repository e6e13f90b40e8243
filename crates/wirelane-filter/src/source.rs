//! The filter that a user requests: an expression or a program, for any link type.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expression;
use crate::program::Program;

/// The user's choice of packets. A port makes a [`Program`] of it for its link type.
///
/// The text is an expression of pcap-filter(7), or the output of `tcpdump -ddd`.
///
/// ```
/// # fn main() -> wirelane_filter::Result<()> {
/// use wirelane_filter::Filter;
///
/// let filter: Filter = "1,6 0 0 65535".parse()?; // a program that accepts everything
/// assert_eq!(filter.program(1, 96)?.instructions().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(FilterSource);

#[derive(Clone, Debug, PartialEq, Eq)]
enum FilterSource {
    Expression(String),
    Decimal(String),
    Program(Arc<Program>),
    Verbatim(Arc<Program>),
}

impl Filter {
    /// A program that is passed to the kernel unchanged, on a port whose packets the kernel
    /// filters: it sees them as a socket filter does, without the outer VLAN tag, which is in
    /// ancillary fields. On other ports an equivalent program runs ([`Program::for_bytes`]).
    pub fn verbatim(program: Program) -> Self {
        Self(FilterSource::Verbatim(Arc::new(program)))
    }

    /// The expression, if it is one.
    pub fn expression(&self) -> Option<&str> {
        match &self.0 {
            FilterSource::Expression(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// Whether [`Filter::verbatim`] made it.
    pub fn is_verbatim(&self) -> bool {
        matches!(self.0, FilterSource::Verbatim(_))
    }

    /// The program for the bytes of packets of `link_type`; a compiled expression accepts `snaplen`
    /// bytes. Numbers, as `tcpdump -ddd` prints them, are a program for packets in the view of the
    /// kernel's socket filter.
    ///
    /// # Errors
    /// A usage error: the expression or the program is invalid, or the program is for another link
    /// type. There is no libpcap to compile an expression.
    pub fn program(&self, link_type: u16, snaplen: u32) -> Result<Arc<Program>> {
        match &self.0 {
            FilterSource::Expression(text) => {
                Ok(Arc::new(expression::compile(text, link_type, snaplen)?))
            }
            FilterSource::Decimal(text) => {
                Ok(Arc::new(Program::parse(link_type, text)?.for_bytes()?))
            }
            FilterSource::Verbatim(program) if program.link_type() == link_type => {
                Ok(Arc::new(program.for_bytes()?))
            }
            FilterSource::Program(program) if program.link_type() == link_type => {
                Ok(Arc::clone(program))
            }
            FilterSource::Program(program) | FilterSource::Verbatim(program) => {
                let (of, link) = (program.link_type(), link_type);
                let cause = format!("it is for link type {of}, but the packets have {link}");
                Err(Error::invalid("filter", cause))
            }
        }
    }

    /// Compiles the expression to find the place of an error; `Ok` if the filter is no expression.
    ///
    /// # Errors
    /// The reason why it cannot be compiled, with its place ([`Error::span`]).
    pub fn check(&self, link_type: u16) -> Result<()> {
        match &self.0 {
            FilterSource::Expression(text) => {
                expression::compile(text, link_type, 0xffff).map(drop)
            }
            FilterSource::Decimal(_) | FilterSource::Program(_) | FilterSource::Verbatim(_) => {
                Ok(())
            }
        }
    }
}

impl FromStr for Filter {
    type Err = Error;

    /// Accepts any text: it is checked when the link type is known.
    fn from_str(text: &str) -> Result<Self> {
        let digits = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        // No expression continues with these characters after a number.
        let is_program = digits.len() < text.trim_start().len() && digits.starts_with([',', '\n']);
        let text = text.to_owned();
        Ok(Self(if is_program {
            FilterSource::Decimal(text)
        } else {
            FilterSource::Expression(text)
        }))
    }
}

impl From<Program> for Filter {
    fn from(program: Program) -> Self {
        Self(FilterSource::Program(Arc::new(program)))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            FilterSource::Expression(text) | FilterSource::Decimal(text) => {
                f.write_str(text.trim())
            }
            FilterSource::Program(program) | FilterSource::Verbatim(program) => {
                program.decimal().fmt(f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_expressions() {
        for text in ["1,6 0 0 9", "1\n6 0 0 9\n", " 1 ,6 0 0 9"] {
            let filter: Filter = text.parse().unwrap();
            let program = matches!(filter.0, FilterSource::Decimal(_));
            assert_eq!(program, !text.contains(" ,"), "{text:?}");
        }
        for text in ["", "1 = 1", "tcp", "10.0.0.1", "4"] {
            assert!(
                matches!(text.parse::<Filter>().unwrap().0, FilterSource::Expression(_)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_verbatim_program_is_one_and_says_so() {
        let program = Program::parse(1, "2,40 0 0 12,6 0 0 200").unwrap();
        let filter = Filter::verbatim(program.clone());
        assert!(filter.is_verbatim() && !Filter::from(program.clone()).is_verbatim());
        assert_eq!(*filter.program(1, 96).unwrap().of_kernel(), program);
        assert_eq!(filter.to_string(), program.decimal().to_string());
        assert!(filter.program(101, 96).is_err());
    }

    #[test]
    fn a_program_stays_with_its_link_type() {
        let filter = Filter::from(Program::parse(1, "1,6 0 0 9").unwrap());
        assert!(filter.program(1, 96).is_ok());
        let error = filter.program(101, 96).unwrap_err().to_string();
        assert!(error.contains("it is for link type 1, but the packets have 101"), "{error}");
    }
}
