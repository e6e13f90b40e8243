//! Persistent labs: their namespaces have names, which `ip netns` knows, too.
//!
//! A lab is complete before it gets its names, one after the other. A process that is killed while
//! it creates a lab leaves nothing, or one name of two. A process that is killed while it removes a
//! lab leaves remains, which the next one removes. Both lock the directory of names; the lock ends
//! with the process.
//!
//! An empty file below a mount belongs to `ip netns add` and is left alone. `down` removes the
//! interfaces first, because an open descriptor may keep the namespace alive.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use wirelane_os::netns::names::{self, NameMeaning, NamesLock};
use wirelane_os::{OsError, link, netdev, netns};

use super::build::{self, has_tap};
use super::mark::LabMark;
use super::mounts;
use super::processes::{self, Process};
use super::shape::LabConfig;
use super::site::{Side, refused};
use wirelane::error::{Error, Result};
use wirelane::internal::Remedy;

/// A named lab, up or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLab {
    pub(super) name: String,
}

/// The action of [`NamedLab::up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It created the lab.
    Made,
    /// It removed remains of a lab, and created it.
    Repaired,
    /// It did nothing, because the lab was up.
    None,
}

/// The result of [`NamedLab::down`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Down {
    /// The removed names; none if there was no lab.
    pub removed: Vec<String>,
    /// The processes inside, which it ended.
    pub ended: Vec<Process>,
    /// Processes with only threads inside, which it did not end: while they stay, the kernel keeps
    /// the namespace, without a name and without the lab's interfaces.
    pub remaining: Vec<Process>,
}

/// The object of one of the two names.
pub(super) enum NamedObject {
    Absent,
    /// A namespace of this lab.
    Ours(OwnedFd, Option<LabConfig>),
    /// A name of this lab without a namespace.
    Leftover,
    /// A foreign namespace, and the reason.
    Foreign(&'static str),
}

impl NamedLab {
    /// The default name.
    pub const DEFAULT: &'static str = "wirelane";

    /// The lab `name`, whose namespaces are called `name-a` and `name-b`. Creates no objects.
    ///
    /// # Errors
    /// A usage error if the name is invalid.
    pub fn new(name: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if !first || name.len() > LONGEST || !name.chars().all(plain) {
            return Err(Error::usage(format!("lab '{name}'"), "invalid name").help(
                "use up to 32 letters, digits, dots, hyphens and underscores, starting with a \
                 letter or digit",
            ));
        }
        Ok(Self { name: name.to_owned() })
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of one of its namespaces.
    pub fn namespace(&self, side: Side) -> String {
        format!("{}-{side}", self.name)
    }

    /// Ensures that the lab exists in this shape. Removes remains of a lab first; an existing lab
    /// is not changed.
    ///
    /// # Errors
    /// It exists in another shape; its remains still have processes inside; one of its names is
    /// foreign; the shape is impossible; CAP_SYS_ADMIN or CAP_NET_ADMIN is missing.
    pub fn up(&self, config: &LabConfig) -> Result<Change> {
        config.check()?;
        let names = NamesLock::lock().map_err(|error| self.refused(error))?;
        let found = self.find()?;
        self.only_ours(&found)?;
        if let Some(present) = self.whole(&found)? {
            if present == Some(*config) {
                return Ok(Change::None);
            }
            let shape =
                present.map_or("made by another version".into(), |config| config.to_string());
            return Err(Error::failed(
                self.object(),
                format!("it is already up, in another shape: {shape}"),
            )
            .help(format!("{} removes it", self.command("down"))));
        }
        let mut change = Change::Made;
        for (side, found) in Side::ALL.into_iter().zip(&found) {
            if let NamedObject::Ours(namespace, _) = found {
                self.nobody_inside(side, namespace)?;
            }
        }
        for (side, found) in Side::ALL.into_iter().zip(found) {
            if self.remove(&names, side, found)? {
                change = Change::Repaired;
            }
        }
        self.make(&names, config)?;
        Ok(change)
    }

    /// Removes the lab, or its remains: ends the processes inside, which get SIGTERM and then
    /// `grace`, and removes its interfaces and names.
    ///
    /// # Errors
    /// This process is inside; a process cannot be ended; one of its names is foreign, which then
    /// remains; CAP_SYS_ADMIN or CAP_NET_ADMIN is missing.
    pub fn down(&self, grace: Duration) -> Result<Down> {
        let mut done = Down::default();
        // Without names, a user without privileges must not need the directory of names.
        if matches!(self.find()?, [NamedObject::Absent, NamedObject::Absent]) {
            return Ok(done);
        }
        let names = NamesLock::lock().map_err(|error| self.refused(error))?;
        let found = self.find()?;
        for (side, found) in Side::ALL.into_iter().zip(&found) {
            if let NamedObject::Ours(namespace, _) = found {
                self.this_process_is_outside(side, namespace)?;
            }
        }
        let foreign = self.only_ours(&found);
        for (side, found) in Side::ALL.into_iter().zip(found) {
            let name = self.namespace(side);
            let namespace = match &found {
                NamedObject::Ours(namespace, _) => {
                    done.ended.extend(processes::end(&name, namespace, grace)?);
                    Some(
                        namespace
                            .as_fd()
                            .try_clone_to_owned()
                            .map_err(|error| Error::io(name.as_str(), "dup", error))?,
                    )
                }
                _ => None,
            };
            if self.remove(&names, side, found)? {
                done.removed.push(name.clone());
            }
            if let Some(namespace) = namespace {
                // Processes that entered before the name was removed.
                done.ended.extend(processes::end(&name, &namespace, Duration::ZERO)?);
                done.remaining.extend(processes::inside(&name, &namespace)?);
            }
        }
        foreign.map(|()| done)
    }

    /// Moves the calling thread, and programs that it starts or executes, into one end permanently.
    /// It also mounts `/sys` for that end; if that fails, returns the error.
    ///
    /// # Errors
    /// There is no such lab, it is incomplete, or CAP_SYS_ADMIN is missing.
    pub fn enter(&self, side: Side) -> Result<Option<Error>> {
        let found = self.find()?;
        self.only_ours(&found)?;
        let up = self.command("up");
        if matches!(found, [NamedObject::Absent, NamedObject::Absent]) {
            return Err(Error::failed(self.object(), "it is not up").help(format!("{up} makes it")));
        }
        let whole = self.whole(&found)?.is_some();
        let [near, far] = found;
        let NamedObject::Ours(namespace, _) = (if side == Side::A { near } else { far }) else {
            return Err(Error::failed(self.object(), format!("it has no end {side} any more"))
                .help(format!("{up} repairs it")));
        };
        if !whole {
            return Err(Error::failed(self.object(), "a part of it is missing")
                .help(format!("{up} repairs it")));
        }
        netns::set(&namespace).map_err(|error| self.refused(error))?;
        let shown = mounts::show_own_interfaces_in_sys();
        Ok(shown.err().map(|error| Error::os("/sys shows the interfaces of the host", error)))
    }

    /// The objects of both names, the near one first.
    pub(super) fn find(&self) -> Result<[NamedObject; 2]> {
        let [near, far] = Side::ALL.map(|side| self.look(side));
        Ok([near?, far?])
    }

    fn look(&self, side: Side) -> Result<NamedObject> {
        let name = self.namespace(side);
        let failed = |error| refused(format!("namespace {name}"), error);
        Ok(match names::look(&name).map_err(failed)? {
            NameMeaning::Absent => NamedObject::Absent,
            NameMeaning::Other => NamedObject::Foreign("it is not a network namespace"),
            NameMeaning::File(contents) => match LabMark::read(&String::from_utf8_lossy(&contents))
            {
                Some(mark) if mark.is_of(&self.name, side) => NamedObject::Leftover,
                _ => NamedObject::Foreign("it is a file that does not belong to a lab"),
            },
            NameMeaning::Namespace(namespace) => match mark_of(&namespace).map_err(failed)? {
                Some(mark) if mark.is_of(&self.name, side) => {
                    NamedObject::Ours(namespace, mark.config)
                }
                Some(_) => NamedObject::Foreign("it belongs to another lab"),
                None => NamedObject::Foreign("it does not belong to a lab"),
            },
        })
    }

    /// Fails if one of the names is foreign.
    fn only_ours(&self, found: &[NamedObject; 2]) -> Result<()> {
        for (side, found) in Side::ALL.into_iter().zip(found) {
            if let NamedObject::Foreign(why) = found {
                let name = self.namespace(side);
                return Err(Error::failed(
                    format!("namespace {name}"),
                    format!("{why}; it is left alone"),
                )
                .remedy(Remedy::LabName));
            }
        }
        Ok(())
    }

    /// The shape of the lab if both ends exist, have the same shape, and still have their
    /// interfaces; `None` if not, and `Some(None)` for a shape that this version cannot read.
    pub(super) fn whole(&self, found: &[NamedObject; 2]) -> Result<Option<Option<LabConfig>>> {
        let [NamedObject::Ours(near, config), NamedObject::Ours(far, other)] = found else {
            return Ok(None);
        };
        if config != other {
            return Ok(None);
        }
        for (side, namespace) in [(Side::A, near), (Side::B, far)] {
            let _inside = netns::enter(namespace).map_err(|error| self.refused(error))?;
            let links = netdev::links().map_err(|error| self.refused(error))?;
            let has = |name: &str, kind: &str| {
                links.iter().any(|link| link.name == name && link.kind.as_deref() == Some(kind))
            };
            let tap = config.is_some_and(|config| has_tap(config.taps, side));
            if !has(side.wire(), "veth") || tap && !has(side.tap(), "tun") {
                return Ok(None);
            }
        }
        Ok(Some(*config))
    }

    /// Creates the lab, and then gives it its names.
    fn make(&self, names: &NamesLock, config: &LabConfig) -> Result<()> {
        let sites = build::build(config)?;
        for (index, (side, site)) in Side::ALL.into_iter().zip(&sites).enumerate() {
            let mark = LabMark { lab: self.name.clone(), side, config: Some(*config) }.to_string();
            site.inside(|| link::set_alias("lo", &mark))?.map_err(|error| self.refused(error))?;
            if let Err(error) = names.give(&self.namespace(side), site, &mark) {
                if index == 1 {
                    let _ = self.look(Side::A).and_then(|found| self.remove(names, Side::A, found));
                }
                return Err(self.refused(error));
            }
        }
        Ok(())
    }

    /// Removes this lab's objects of one end. Returns whether there were any.
    fn remove(&self, names: &NamesLock, side: Side, mut found: NamedObject) -> Result<bool> {
        let name = self.namespace(side);
        let failed = |error| refused(format!("namespace {name}"), error);
        let mut there = false;
        // One namespace may be mounted over another, if the directory of names was mounted over
        // itself.
        loop {
            match &found {
                NamedObject::Absent | NamedObject::Foreign(_) => return Ok(there),
                NamedObject::Leftover => {
                    names.remove(&name).map_err(failed)?;
                    return Ok(true);
                }
                NamedObject::Ours(namespace, _) => {
                    // The interfaces first, because a namespace that a process holds open would
                    // keep them.
                    let _inside = netns::enter(namespace).map_err(failed)?;
                    for interface in [side.wire(), side.tap()] {
                        match link::delete(interface) {
                            Err(error) if error.errno() != Some(ENODEV) => {
                                return Err(failed(error));
                            }
                            _ => {}
                        }
                    }
                    names.unmount(&name).map_err(failed)?;
                    there = true;
                }
            }
            found = self.look(side)?;
        }
    }

    fn nobody_inside(&self, side: Side, namespace: &OwnedFd) -> Result<()> {
        let name = self.namespace(side);
        let found = processes::inside(&name, namespace)?;
        let Some(first) = found.iter().find(|process| !process.threads_only) else { return Ok(()) };
        let cause = format!("a part of it is missing, and process {} runs in {name}", first.pid);
        let help = format!("{} ends them and removes it", self.command("down"));
        Err(Error::failed(self.object(), cause).help(help))
    }

    fn this_process_is_outside(&self, side: Side, namespace: &OwnedFd) -> Result<()> {
        let here = netns::current().map_err(|error| self.refused(error))?;
        if !netns::same(&here, namespace).map_err(|error| self.refused(error))? {
            return Ok(());
        }
        let cause = format!("this command runs inside, in {}", self.namespace(side));
        Err(Error::failed(self.object(), cause).help("leave it first"))
    }

    pub(super) fn object(&self) -> String {
        format!("lab {}", self.name)
    }

    pub(super) fn refused(&self, error: OsError) -> Error {
        refused(self.object(), error)
    }

    /// A command line for this lab.
    fn command(&self, action: &str) -> String {
        if self.name == Self::DEFAULT {
            format!("`wirelane lab {action}`")
        } else {
            format!("`wirelane lab {action} --name {}`", self.name)
        }
    }
}

/// The longest name, which leaves room in a mark.
const LONGEST: usize = 32;
const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();

/// The mark of a namespace.
pub(super) fn mark_of(namespace: &OwnedFd) -> wirelane_os::Result<Option<LabMark>> {
    let _inside = netns::enter(namespace)?;
    match netdev::link("lo") {
        // A renamed loopback: it is not a lab of this program.
        Err(error) if error.errno() == Some(ENODEV) => Ok(None),
        link => Ok(link?.alias.as_deref().and_then(LabMark::read)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;
    use wirelane::error::ErrorKind;

    #[test]
    fn names_are_plain() {
        for name in ["wirelane", "a", "0", "x-1_2.3", &"n".repeat(32)] {
            assert_eq!(NamedLab::new(name).unwrap().namespace(Side::B), format!("{name}-b"));
        }
        for name in ["", ".", "-x", "a b", "a/b", "../x", "é", &"n".repeat(33)] {
            assert_eq!(NamedLab::new(name).unwrap_err().kind(), ErrorKind::Usage, "{name}");
        }
    }

    /// A process that creates a lab is killed between one name and the other.
    #[test]
    fn privileged_one_name_of_two_is_known_and_repaired() {
        if !wirelane_testkit::privileged::require() {
            return;
        }
        let lab = NamedLab::new(&format!("wlu{}", std::process::id())).unwrap();
        let _down = Cleanup(&lab);
        let config = LabConfig::default();
        for kept in Side::ALL {
            {
                let names = NamesLock::lock().unwrap();
                lab.make(&names, &config).unwrap();
                let gone = if kept == Side::A { Side::B } else { Side::A };
                let name = lab.namespace(gone);
                names.unmount(&name).unwrap();
                names.remove(&name).unwrap();
            }
            assert_eq!(lab.status().unwrap().state, State::Partial);
            assert_eq!(lab.up(&config).unwrap(), Change::Repaired);
            assert_eq!(lab.up(&config).unwrap(), Change::None);
            assert_eq!(lab.status().unwrap().state, State::Up);
            assert!(NamedLab::all().unwrap().contains(&lab));
            assert_eq!(lab.down(Duration::ZERO).unwrap().removed.len(), 2);
            assert_eq!(lab.status().unwrap().state, State::Absent);
        }
    }

    /// Removes the lab of a failed test.
    struct Cleanup<'a>(&'a NamedLab);

    impl Drop for Cleanup<'_> {
        fn drop(&mut self) {
            let _ = self.0.down(Duration::ZERO);
        }
    }
}
