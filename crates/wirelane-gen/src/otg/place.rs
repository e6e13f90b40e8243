//! Nodes with their paths, for error messages.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use super::yaml::{YamlContent, YamlNode};
use crate::error::{Error, Result};

/// A node and its path.
#[derive(Clone, Copy)]
pub(super) struct NodePath<'a> {
    node: &'a YamlNode,
    parent: Option<&'a NodePath<'a>>,
    step: PathStep<'a>,
    budget: &'a ListBudget,
}

/// The number of values that may still be stored in lists. It bounds the memory, as a small file
/// can request very many.
pub(super) struct ListBudget(Cell<u64>);

impl ListBudget {
    pub(super) fn new() -> Self {
        Self(Cell::new(1 << 22))
    }
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Root,
    Key(&'a str),
    Item(usize),
}

/// The node of an absent field.
static ABSENT: YamlNode = YamlNode { line: 0, column: 0, content: YamlContent::Null };

/// The entries of a map. The reader requests each entry by name, and [`finish`](Self::finish)
/// refuses the rest, so that no entry is ignored.
pub(super) struct MapFields<'a> {
    place: NodePath<'a>,
    entries: &'a [(String, YamlNode)],
    known: RefCell<Vec<&'a str>>,
}

impl<'a> NodePath<'a> {
    pub(super) fn root(node: &'a YamlNode, budget: &'a ListBudget) -> Self {
        Self { node, parent: None, step: PathStep::Root, budget }
    }

    /// Reserves `values` list entries from the budget.
    pub(super) fn list(&self, values: u64) -> Result<()> {
        match self.budget.0.get().checked_sub(values) {
            Some(left) => {
                self.budget.0.set(left);
                Ok(())
            }
            None => Err(self.error("the fields of this file have too many values in all")),
        }
    }

    /// An error with the message `what` at this place.
    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        self.located(Error::new(what))
    }

    /// Adds this place to an error.
    pub(super) fn located(&self, error: Error) -> Error {
        let (line, column) = self.position();
        error.at(line, column, self.path())
    }

    fn position(&self) -> (usize, usize) {
        match self.parent {
            Some(parent) if self.is_absent() => parent.position(),
            _ => (self.node.line.max(1), self.node.column.max(1)),
        }
    }

    /// Whether the node is absent, so that defaults apply.
    pub(super) fn is_absent(&self) -> bool {
        std::ptr::eq(self.node, &ABSENT)
    }

    /// An error that also names the supported values.
    pub(super) fn unsupported(&self, what: &str, supported: &str) -> Error {
        self.error(format!("{what}; supported: {supported}"))
    }

    pub(super) fn path(&self) -> String {
        let mut path = self.parent.map(NodePath::path).unwrap_or_default();
        match self.step {
            PathStep::Root => {}
            PathStep::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            PathStep::Item(index) => {
                let _ = write!(path, "[{index}]");
            }
        }
        path
    }

    /// The fields of a map; none if the value is absent.
    pub(super) fn fields(self) -> Result<MapFields<'a>> {
        let entries: &[_] = match &self.node.content {
            YamlContent::Map(entries) => entries,
            YamlContent::Null => &[],
            _ => return Err(self.error(format!("{} where fields are due", self.kind()))),
        };
        Ok(MapFields { place: self, entries, known: RefCell::default() })
    }

    /// The items of a list; none if the value is absent.
    pub(super) fn items(&self) -> Result<&'a [YamlNode]> {
        match &self.node.content {
            YamlContent::List(items) => Ok(items),
            YamlContent::Null => Ok(&[]),
            _ => Err(self.error(format!("{} where a list is due", self.kind()))),
        }
    }

    /// Calls `read` for each item of a list.
    pub(super) fn each<T>(
        &self,
        mut read: impl FnMut(NodePath<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let item = |(index, node)| {
            read(NodePath {
                node,
                parent: Some(self),
                step: PathStep::Item(index),
                budget: self.budget,
            })
        };
        self.items()?.iter().enumerate().map(item).collect()
    }

    /// Text, quoted or not.
    pub(super) fn text(&self) -> Result<&'a str> {
        match &self.node.content {
            YamlContent::Text { text, .. } => Ok(text),
            _ => Err(self.error(format!("{} where text is due", self.kind()))),
        }
    }

    /// The value, which must be one of `options`.
    pub(super) fn one_of(&self, options: &[&'static str]) -> Result<&'static str> {
        self.one_of_known(options, options)
    }

    /// The value, which must be one of `known`. The error names only the `supported` ones.
    fn one_of_known(
        &self,
        known: &[&'static str],
        supported: &[&'static str],
    ) -> Result<&'static str> {
        let text = self.text()?;
        let found = known.iter().find(|option| **option == text).copied();
        found.ok_or_else(|| {
            self.unsupported(&format!("'{text}' is not supported"), &supported.join(", "))
        })
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Result<bool> {
        match &self.node.content {
            YamlContent::Text { text, quoted: false } if text == "true" => Ok(true),
            YamlContent::Text { text, quoted: false } if text == "false" => Ok(false),
            _ => Err(self.error(format!("{} where true or false is due", self.kind()))),
        }
    }

    /// An integer from `low` to `high`, inclusive. It may be quoted, as Protobuf quotes 64-bit
    /// numbers.
    pub(super) fn integer(&self, low: u64, high: u64) -> Result<u64> {
        let text = self.text()?;
        let value = match text.strip_prefix("0x") {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                u64::from_str_radix(digits, 16).ok()
            }
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        match value {
            Some(value) if (low..=high).contains(&value) => Ok(value),
            Some(_) => Err(self.error(format!("{text} is out of range: {low} to {high}"))),
            None => Err(self.error(format!("'{text}' is no whole number from {low} to {high}"))),
        }
    }

    /// A finite number from `low` to `high`, inclusive.
    pub(super) fn number(&self, low: f64, high: f64) -> Result<f64> {
        let text = self.text()?;
        let plain =
            text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        match text.parse::<f64>().ok().filter(|_| plain) {
            Some(value) if value >= low && value <= high => Ok(value),
            Some(_) => Err(self.error(format!("{text} is out of range: {low} to {high}"))),
            None => Err(self.error(format!("'{text}' is no number"))),
        }
    }

    /// Returns an error with the reason `why`, unless the value is null or an empty list or map.
    pub(super) fn refuse(&self, why: &str) -> Result<()> {
        match &self.node.content {
            YamlContent::Null => Ok(()),
            YamlContent::List(items) if items.is_empty() => Ok(()),
            YamlContent::Map(entries) if entries.is_empty() => Ok(()),
            _ => Err(self.error(why)),
        }
    }

    fn kind(&self) -> &'static str {
        match self.node.content {
            YamlContent::Null => "nothing",
            YamlContent::Text { .. } => "a value",
            YamlContent::List(_) => "a list",
            YamlContent::Map(_) => "a map",
        }
    }
}

impl<'a> MapFields<'a> {
    /// The place of the map.
    pub(super) fn place(&self) -> &NodePath<'a> {
        &self.place
    }

    /// The field `key`, if present.
    pub(super) fn get(&self, key: &'a str) -> Option<NodePath<'_>> {
        self.known.borrow_mut().push(key);
        let (_, node) = self.entries.iter().find(|(name, _)| name == key)?;
        Some(NodePath {
            node,
            parent: Some(&self.place),
            step: PathStep::Key(key),
            budget: self.place.budget,
        })
    }

    /// The field `key`, or an absent place.
    pub(super) fn part(&self, key: &'a str) -> NodePath<'_> {
        let absent = NodePath {
            node: &ABSENT,
            parent: Some(&self.place),
            step: PathStep::Key(key),
            budget: self.place.budget,
        };
        self.get(key).unwrap_or(absent)
    }

    /// The field `key`, which the model requires.
    pub(super) fn need(&self, key: &'a str) -> Result<NodePath<'_>> {
        self.get(key).ok_or_else(|| self.place.error(format!("'{key}' is missing")))
    }

    /// The option named by the field `choice`, which selects one of several fields in the model.
    /// Without it, the option that is present, or `default`.
    pub(super) fn choice(
        &self,
        options: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str> {
        self.choice_of(options, options, default)
    }

    /// Like [`choice`](Self::choice), with `options` that include unsupported ones.
    pub(super) fn choice_of(
        &self,
        options: &[&'static str],
        supported: &[&'static str],
        default: &'static str,
    ) -> Result<&'static str> {
        let present = options.iter().find(|option| self.has(option)).copied();
        let chosen = match self.get("choice") {
            Some(choice) => choice.one_of_known(options, supported)?,
            None => present.unwrap_or(default),
        };
        for option in options.iter().filter(|option| **option != chosen) {
            if let Some((_, node)) = self.entries.iter().find(|(name, _)| name == option) {
                let place = NodePath {
                    node,
                    parent: Some(&self.place),
                    step: PathStep::Key(option),
                    budget: self.place.budget,
                };
                return Err(place.error(format!("given, although the choice is '{chosen}'")));
            }
        }
        Ok(chosen)
    }

    fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name == key)
    }

    /// Refuses fields that were not requested.
    pub(super) fn finish(self) -> Result<()> {
        let known = self.known.into_inner();
        let Some((key, node)) =
            self.entries.iter().find(|(name, _)| !known.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let place = NodePath {
            node,
            parent: Some(&self.place),
            step: PathStep::Key(key),
            budget: self.place.budget,
        };
        Err(place.unsupported("not supported here", &known.join(", ")))
    }
}
