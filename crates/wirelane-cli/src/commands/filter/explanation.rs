//! The packets that a filter would take from the host on an `xdp:` port.

use serde::Serialize;

use crate::reachability::ClassEffect;
use crate::steering;

/// The effect of a filter on each class of packets that the host needs.
#[derive(Serialize)]
pub(super) struct Explained<'a> {
    interface: Option<&'a str>,
    takes_ssh: bool,
    classes: Vec<ClassEffect>,
}

impl<'a> Explained<'a> {
    /// With the addresses of `interface`, or with examples.
    pub(super) fn new(classes: Vec<ClassEffect>, interface: Option<&'a str>) -> Self {
        let takes_ssh = classes.iter().any(|taken| taken.class.is_ssh() && taken.matching > 0);
        Self { interface, takes_ssh, classes }
    }

    /// For people.
    pub(super) fn page(&self) -> String {
        let whose = match self.interface {
            Some(name) => format!("given the addresses of {name}"),
            None => "assuming example addresses; --interface IF uses real ones".to_owned(),
        };
        let mut page =
            format!("On an xdp: port, this filter would take from the host ({whose}):\n");
        page += &steering::table(&self.classes, true);
        page += if self.classes.iter().all(|taken| taken.matching == 0) {
            "It takes nothing the host needs to stay reachable; it may take other traffic of the host.\n"
        } else if self.classes.iter().any(|taken| taken.management > 0) {
            "All of these except ping are management traffic, which stays with the host without --take-management.\n"
        } else {
            ""
        };
        page
    }
}
