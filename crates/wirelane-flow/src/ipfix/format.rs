//! The message format (RFC 7011 section 3).

use super::element::Element;
use super::shape::RecordShape;

/// The length of a message header.
pub(super) const HEADER: usize = 16;
/// The length of a set header.
pub(super) const SET_HEADER: usize = 4;

pub(super) const VERSION: u16 = 10;
/// The ID of a template set.
pub(super) const TEMPLATES: u16 = 2;
/// The ID of an options template set.
pub(super) const OPTIONS_TEMPLATES: u16 = 3;

/// Appends the template record of a shape (RFC 7011 section 3.4.1).
pub(super) fn put_template(out: &mut Vec<u8>, shape: RecordShape, enterprise: Option<u32>) {
    let fields = shape.fields(enterprise);
    out.extend(shape.template().to_be_bytes());
    out.extend((fields.len() as u16).to_be_bytes());
    for (element, _) in fields {
        put_specifier(out, element);
    }
}

/// Appends a field specifier (RFC 7011 section 3.2).
pub(super) fn put_specifier(out: &mut Vec<u8>, element: Element) {
    const OF_AN_ENTERPRISE: u16 = 0x8000;
    let is_iana = element.enterprise == 0;
    let id = if is_iana { element.id } else { element.id | OF_AN_ENTERPRISE };
    out.extend(id.to_be_bytes());
    out.extend(element.length.to_be_bytes());
    if !is_iana {
        out.extend(element.enterprise.to_be_bytes());
    }
}
