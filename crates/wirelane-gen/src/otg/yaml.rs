//! Parses YAML, including JSON, to a tree of nodes with line and column.
//!
//! Scalars stay text, because the reader of a field determines its type. So `name: 1` is a valid
//! name, and a quoted 64-bit number, as in Protobuf JSON, is a number.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::error::{Error, Result};

/// A value of the file with its position.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) content: YamlContent,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub(super) enum YamlContent {
    Null,
    Text { text: String, quoted: bool },
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
}

/// The largest nesting depth. The model needs about 20.
const DEPTH: usize = 64;

/// The most memory for nodes that aliases and anchors repeat, including texts and keys, so that a
/// small file cannot exhaust the memory.
const REPEATED: usize = 64 << 20;
/// The memory of one node, without its text.
const NODE: usize = size_of::<(String, YamlNode)>();

/// Parses the single document of `text`.
pub(super) fn read(text: &str) -> Result<YamlNode> {
    let mut reader = YamlParser::default();
    let mut document = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col() + 1);
            let wrong = Error::new(format!("not valid YAML: {}", error.info()));
            wrong.at(line, column, String::new())
        })?;
        if let Some(node) = reader.take(event, span)? {
            if document.is_some() {
                return Err(wrong(span, "a second YAML document; a flow file has one"));
            }
            document = Some(node);
        }
    }
    Ok(document.unwrap_or(YamlNode { line: 1, column: 1, content: YamlContent::Null }))
}

/// The state of the parser.
#[derive(Default)]
struct YamlParser {
    open: Vec<OpenContainer>,
    anchors: HashMap<usize, Anchored>,
    /// The bytes of nodes that anchors store and aliases repeat.
    repeated: usize,
}

/// An open container.
struct OpenContainer {
    node: YamlNode,
    anchor: usize,
    /// The key of a map entry that has no value yet.
    key: Option<(String, usize, usize)>,
    /// All keys of a map.
    keys: HashSet<String>,
    /// The bytes of its nodes including itself, and their nesting depth.
    bytes: usize,
    height: usize,
}

/// A node that aliases repeat.
struct Anchored {
    node: YamlNode,
    bytes: usize,
    height: usize,
}

impl YamlParser {
    /// Processes the next event. Returns the root node at the end of the document.
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<Option<YamlNode>> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some_and(|tag| !tag.is_yaml_core_schema()) {
                    return Err(wrong(span, "a tag, which the model does not have"));
                }
                let quoted = style != ScalarStyle::Plain;
                let null = !quoted && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let bytes = NODE + text.len();
                let content = if null {
                    YamlContent::Null
                } else {
                    YamlContent::Text { text: text.into_owned(), quoted }
                };
                self.complete(at(span, content), anchor, bytes, 1, span)
            }
            Event::SequenceStart(anchor, _) => self.enter(YamlContent::List(vec![]), anchor, span),
            Event::MappingStart(anchor, _) => self.enter(YamlContent::Map(vec![]), anchor, span),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenContainer { node, anchor, bytes, height, .. }) => {
                    self.complete(node, anchor, bytes, height + 1, span)
                }
                None => Ok(None),
            },
            Event::Alias(anchor) => {
                let Some(known) = self.anchors.get(&anchor) else {
                    return Err(wrong(span, "an alias inside its own anchor"));
                };
                let (bytes, height) = (known.bytes, known.height);
                self.repeated = repeat(self.repeated, bytes, span)?;
                let node =
                    YamlNode { content: known.node.content.clone(), ..at(span, YamlContent::Null) };
                self.complete(node, 0, bytes, height, span)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(None),
        }
    }

    fn enter(
        &mut self,
        content: YamlContent,
        anchor: usize,
        span: Span,
    ) -> Result<Option<YamlNode>> {
        if self.open.len() >= DEPTH {
            return Err(wrong(span, "nested too deeply"));
        }
        let (node, keys) = (at(span, content), HashSet::new());
        self.open.push(OpenContainer { node, anchor, key: None, keys, bytes: NODE, height: 0 });
        Ok(None)
    }

    /// Adds a complete node to its container.
    fn complete(
        &mut self,
        node: YamlNode,
        anchor: usize,
        bytes: usize,
        height: usize,
        span: Span,
    ) -> Result<Option<YamlNode>> {
        if self.open.len() + height > DEPTH + 1 {
            return Err(wrong(span, "nested too deeply"));
        }
        if anchor != 0 {
            self.repeated = repeat(self.repeated, bytes, span)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), bytes, height });
        }
        let Some(open) = self.open.last_mut() else {
            return Ok(Some(node));
        };
        open.bytes += bytes;
        open.height = open.height.max(height);
        match (&mut open.node.content, open.key.take()) {
            (YamlContent::Map(_), None) => {
                let YamlContent::Text { text, .. } = node.content else {
                    return Err(wrong(span, "a key that is no text"));
                };
                if !open.keys.insert(text.clone()) {
                    return Err(wrong(span, format!("the key '{text}' for the second time")));
                }
                open.key = Some((text, node.line, node.column));
            }
            // An empty value has the position of its key.
            (YamlContent::Map(entries), Some((key, line, column))) => {
                let empty = matches!(node.content, YamlContent::Null);
                let node = if empty { YamlNode { line, column, ..node } } else { node };
                entries.push((key, node));
            }
            (YamlContent::List(items), _) => items.push(node),
            (YamlContent::Null | YamlContent::Text { .. }, _) => {}
        }
        Ok(None)
    }
}

/// The sum of the repeated bytes, limited by [`REPEATED`].
fn repeat(before: usize, bytes: usize, span: Span) -> Result<usize> {
    let sum = before.checked_add(bytes).filter(|sum| *sum <= REPEATED);
    sum.ok_or_else(|| wrong(span, "the aliases of this file repeat too much"))
}

fn at(span: Span, content: YamlContent) -> YamlNode {
    YamlNode { line: span.start.line(), column: span.start.col() + 1, content }
}

fn wrong(span: Span, what: impl Into<String>) -> Error {
    let YamlNode { line, column, .. } = at(span, YamlContent::Null);
    Error::new(what).at(line, column, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(node: &YamlNode) -> String {
        match &node.content {
            YamlContent::Null => "~".into(),
            YamlContent::Text { text, quoted: false } => text.clone(),
            YamlContent::Text { text, quoted: true } => format!("'{text}'"),
            YamlContent::List(items) => {
                format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(" "))
            }
            YamlContent::Map(entries) => {
                let entry = |(key, node): &(String, YamlNode)| format!("{key}:{}", shape(node));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn yaml_and_json_are_the_same_tree() {
        let yaml = "a:\n- 1\n- b: 'x'\n  c:\nd: {}\n";
        assert_eq!(shape(&read(yaml).unwrap()), "{a:[1 {b:'x' c:~}] d:{}}");
        let json = "{\n\t\"a\": [1, {\"b\": \"x\", \"c\": null}],\r\n\t\"d\": {}\n}";
        assert_eq!(shape(&read(json).unwrap()), "{a:[1 {b:'x' c:~}] d:{}}");
        assert_eq!(shape(&read("").unwrap()), "~");
    }

    #[test]
    fn nodes_know_their_place() {
        let node = read("ports:\n- name: x\n  location: y\n").unwrap();
        let YamlContent::Map(top) = &node.content else { panic!() };
        let YamlContent::List(ports) = &top[0].1.content else { panic!() };
        let YamlContent::Map(port) = &ports[0].content else { panic!() };
        assert_eq!((port[1].1.line, port[1].1.column), (3, 13));
    }

    #[test]
    fn errors_have_a_line() {
        let error = read("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(
            error.place().unwrap().line >= 2 && error.message().starts_with("not valid YAML"),
            "{error}"
        );
        let error = read("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3, column 1: the key 'a' for the second time");
    }

    #[test]
    fn aliases_of_long_texts_and_keys_repeat_within_bounds() {
        let long = "x".repeat(1_000_000);
        let aliases = "*a, ".repeat(20_000);
        for text in [&long, &format!("{{{long}: 1}}"), &format!("[{long}]")] {
            let bomb = format!("a: &a {text}\nb: [{aliases}]\n");
            assert!(read(&bomb).unwrap_err().message().contains("repeat too much"));
        }
        // Each anchor around a node stores another copy of it.
        let nested: String = (0..60).map(|level| format!("&a{level} [")).collect();
        let bomb = format!("{nested}{}", "x, ".repeat(300_000));
        assert!(read(&format!("{bomb}{}", "]".repeat(60))).is_err());
        assert!(read(&format!("a: &a {long}\nb: *a\n")).is_ok());
    }

    #[test]
    fn many_keys_take_little_time() {
        let keys: String = (0..200_000).map(|key| format!("k{key}: 1\n")).collect();
        let started = std::time::Instant::now();
        assert!(read(&keys).is_ok());
        // A linear search for each key took minutes.
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        let twice = read(&format!("{keys}k77: 2\n")).unwrap_err();
        assert_eq!(twice.place().unwrap().line, 200_001);
        assert_eq!(twice.message(), "the key 'k77' for the second time");
    }

    #[test]
    fn aliases_repeat_within_bounds() {
        assert_eq!(shape(&read("a: &x [1, 2]\nb: *x\n").unwrap()), "{a:[1 2] b:[1 2]}");
        let mut bomb = String::from("- &a0 [x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let previous = format!("*a{}, ", level - 1).repeat(8);
            bomb += &format!("- &a{level} [{}]\n", previous.trim_end_matches(", "));
        }
        assert!(read(&bomb).unwrap_err().message().contains("repeat too much"));
        let mut chain = String::from("- &a0 [x]\n");
        for level in 1..200 {
            chain += &format!("- &a{level} [*a{}]\n", level - 1);
        }
        assert!(read(&chain).unwrap_err().message().contains("nested too deeply"));
        assert!(read("a: &x [*x]\n").is_err());
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
