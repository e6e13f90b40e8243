//! The expressions of `expressions.txt`.

pub(crate) struct Expression {
    pub(crate) text: String,
    pub(crate) link_type: u16,
}

pub(crate) fn expressions() -> Vec<Expression> {
    let mut link_type = 1;
    let mut expressions = Vec::new();
    for line in include_str!("expressions.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(number) = line.strip_prefix("[link ").and_then(|rest| rest.strip_suffix(']')) {
            link_type = number.parse().expect("a link type");
            continue;
        }
        let text = if line == "\"\"" { String::new() } else { line.to_owned() };
        expressions.push(Expression { text, link_type });
    }
    expressions
}
