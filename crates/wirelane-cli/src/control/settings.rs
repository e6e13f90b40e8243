//! The settings of a running command's ports, for people and programs.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Value, json};
use wirelane::{Error, Result};

use super::client::ask;
use super::request::{ControlRequest, Identity};
use crate::output::{self, printable};

/// The settings of one port or of several.
pub(crate) struct PortSettings<T> {
    pub(crate) schema: &'static str,
    pub(crate) of: Vec<T>,
}

impl<T: Serialize + Display> PortSettings<T> {
    /// Prints them: of several ports a line each, with the position that `--port` means and its
    /// name.
    ///
    /// # Errors
    /// Standard output takes nothing, or the command is gone.
    pub(crate) fn show(&self, pid: u32, json: bool, port: impl Fn(&T) -> usize) -> Result<()> {
        if json {
            return output::json(&self.document()?);
        }
        if let [only] = self.of.as_slice() {
            return output::print(&format!("{only}\n"));
        }
        let identity: Identity = ask(pid, &ControlRequest::Identity)?;
        let line = |setting: &T| {
            let name = identity.ports.get(port(setting)).map(|name| printable(name));
            format!("port {} {}: {setting}\n", port(setting), name.unwrap_or_default())
        };
        output::print(&self.of.iter().map(line).collect::<String>())
    }

    /// One object: the only port, or a list of all ports.
    fn document(&self) -> Result<Value> {
        let value = |setting| {
            serde_json::to_value(setting)
                .map_err(|error| Error::io("settings", "encode", error.into()))
        };
        let mut document = match self.of.as_slice() {
            [only] => value(only)?,
            all => json!({ "ports": all.iter().map(value).collect::<Result<Vec<_>>>()? }),
        };
        if let Some(members) = document.as_object_mut() {
            members.insert("schema".into(), self.schema.into());
        }
        Ok(document)
    }
}
