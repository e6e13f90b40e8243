//! Conditions of a run in addition to the machine model: settings, load, and the versions of all
//! programs that take part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde::{Serialize, Serializer};

use crate::peers;
use crate::statistics::quiet::Quiet;

/// How long a suite took.
#[derive(Clone, Debug, Serialize)]
pub struct Took {
    /// Its name.
    pub suite: &'static str,
    /// In seconds.
    pub elapsed_s: f64,
}

/// Where a suite measures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pinned {
    /// Its name.
    pub suite: &'static str,
    /// The CPU.
    #[serde(flatten)]
    pub on: Quiet,
}

/// The circumstances of a run. An unknown value is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// When it began: UTC, RFC 3339.
    #[serde(serialize_with = "rfc3339")]
    pub started: SystemTime,
    /// How long it took, in seconds; `None` until it has ended.
    pub elapsed_s: Option<f64>,
    /// How long each suite took, if there were several.
    pub suites: Vec<Took>,
    /// Which suites measure on one CPU, and on which.
    pub pinned: Vec<Pinned>,
    /// Processes that ran or waited, on average over the minute before the start.
    pub load_at_start: Option<f64>,
    /// The same at the end, including this program's processes.
    pub load_at_end: Option<f64>,
    /// The frequency governors in use, or `none` if the kernel does not control the clock rate, as
    /// in most virtual machines.
    pub governor: Option<String>,
    /// The CPU vulnerabilities that the kernel lists, with the mitigation of each.
    pub mitigations: Option<BTreeMap<String, String>>,
    /// The commit that this program was built from.
    pub revision: Option<String>,
    /// Seed of all generated traffic, unless a port names another one.
    pub seed: u64,
    /// Other programs that can take part.
    pub programs: Vec<peers::Installed>,
    /// Command lines of the other programs that did, each once.
    pub commands: Vec<String>,
    #[serde(skip)]
    clock: Instant,
}

impl Environment {
    /// Reads it; takes some milliseconds for each program that is installed.
    pub fn read() -> Self {
        Self {
            started: SystemTime::now(),
            elapsed_s: None,
            suites: Vec::new(),
            pinned: Vec::new(),
            load_at_start: load_average(),
            load_at_end: None,
            governor: governor(Path::new("/sys/devices/system/cpu")),
            mitigations: mitigations(Path::new("/sys/devices/system/cpu/vulnerabilities")),
            revision: None,
            seed: wirelane::internal::sim::DEFAULT_SEED,
            programs: peers::installed(),
            commands: Vec::new(),
            clock: Instant::now(),
        }
    }

    /// The run is over.
    pub fn finish(&mut self) {
        self.elapsed_s = Some(self.clock.elapsed().as_secs_f64());
        self.load_at_end = load_average();
    }

    /// Records how long a suite took.
    pub fn add_suite(&mut self, suite: &'static str, elapsed: Duration) {
        self.suites.push(Took { suite, elapsed_s: elapsed.as_secs_f64() });
    }

    /// Records where a suite measures; once.
    pub fn add_pinned(&mut self, suite: &'static str, on: Quiet) {
        if self.pinned.iter().all(|pinned| pinned.suite != suite) {
            self.pinned.push(Pinned { suite, on });
        }
    }

    /// The moment of the start, for people: UTC, RFC 3339.
    pub fn started(&self) -> String {
        humantime::format_rfc3339_seconds(self.started).to_string()
    }

    /// Records that a command took part.
    pub fn add_command(&mut self, command: String) {
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }
}

fn rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_seconds(*time))
}

fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// `None` if the CPUs cannot be listed.
fn governor(cpus: &Path) -> Option<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(cpus).ok()?.flatten() {
        let file = entry.path().join("cpufreq/scaling_governor");
        names.extend(fs::read_to_string(file).map(|text| text.trim().to_owned()));
    }
    let names: Vec<_> = names.into_iter().collect();
    Some(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

fn mitigations(folder: &Path) -> Option<BTreeMap<String, String>> {
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), text.trim().to_owned()))
    };
    Some(fs::read_dir(folder).ok()?.flatten().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_load_are_told() {
        let mut environment = Environment::read();
        environment.started = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        assert_eq!(environment.started(), "1970-01-02T00:00:00Z");
        let value = serde_json::to_value(&environment).unwrap();
        assert_eq!(value["started"], "1970-01-02T00:00:00Z");
        assert!(value["load_at_start"].is_f64() && value["load_at_end"].is_null(), "{value}");
        environment.finish();
        let value = serde_json::to_value(&environment).unwrap();
        assert!(value["load_at_end"].is_f64() && value["elapsed_s"].is_f64(), "{value}");
    }

    #[test]
    fn settings_of_the_kernel_are_read_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        fs::create_dir(folder.path().join("cpu0")).unwrap();
        assert_eq!(governor(folder.path()).as_deref(), Some("none"));
        for (cpu, name) in [("cpu0", "powersave\n"), ("cpu1", "performance\n")] {
            write(&format!("{cpu}/cpufreq/scaling_governor"), name);
        }
        assert_eq!(governor(folder.path()).as_deref(), Some("performance, powersave"));
        write("flaws/meltdown", "Not affected\n");
        let flaws = mitigations(&folder.path().join("flaws")).unwrap();
        assert_eq!(
            flaws.into_iter().collect::<Vec<_>>(),
            [("meltdown".into(), "Not affected".into())]
        );
        // An unreadable setting is unknown rather than absent.
        let nowhere = folder.path().join("nowhere");
        assert!(governor(&nowhere).is_none() && mitigations(&nowhere).is_none());
    }

    #[test]
    fn commands_are_kept_once() {
        let mut environment = Environment::read();
        for command in ["a 1", "b", "a 1"] {
            environment.add_command(command.to_owned());
        }
        assert_eq!(environment.commands, ["a 1", "b"]);
    }
}
