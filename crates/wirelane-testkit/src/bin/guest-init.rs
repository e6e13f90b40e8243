//! The first process of the guest that `cargo xtask vm` boots.
//!
//! It mounts the usual file systems, loads the drivers in `/modules`, names the network interfaces
//! after their drivers, runs the programs of `/plan` one after the other, and powers off. If there
//! is a directory `/host`, it mounts the files of the host there, read-only. Programs can write to
//! the directories of the host that `/temporary` lists. The output of the programs goes to the
//! second serial port, between lines that begin with `@@`:
//!
//! ```text
//! @@ note 6.14.0, igb0 with 2 queues, …
//! @@ run NAME
//! (output)
//! @@ end 1.3 exit 0
//! @@ done
//! ```
//!
//! Each line of the plan describes one program. Its fields are separated by tabs: the name, the
//! time limit in seconds, any number of `NAME=value` for the environment, and after `--` the
//! program and its arguments. After `--beside` a second program can follow, which is started before
//! the first and interrupted after it. With `@after=IF` among the values, the first program starts
//! when the interface `IF` has received packets, for example those of the second program.
#![allow(clippy::print_stderr, reason = "the console is where a guest that cannot go on says so")]

use std::error::Error;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount, mount_bind_recursive};
use rustix::process::{Pid, Signal, kill_process};
use rustix::system::{RebootCommand, finit_module, reboot, uname};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::iface;
use wirelane_testkit::kernel;

/// The second serial port.
type Port = Arc<Mutex<File>>;
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    if process::id() != 1 {
        eprintln!("guest-init is the first process of the guest of `cargo xtask vm`");
        return ExitCode::FAILURE;
    }
    if let Err(error) = guest() {
        eprintln!("guest-init: {error}");
    }
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    // Reached only if powering off failed. The kernel panics when its first process ends.
    ExitCode::FAILURE
}

fn guest() -> Result<()> {
    file_systems()?;
    let port = OpenOptions::new().write(true).open("/dev/ttyS1")?;
    let port = Arc::new(Mutex::new(port));
    let outcome = prepare().and_then(|note| {
        write(&port, format!("@@ note {note}\n").as_bytes());
        home()?;
        for line in fs::read_to_string("/plan")?.lines() {
            run(&Program::parse(line)?, &port);
        }
        Ok(())
    });
    match &outcome {
        Ok(()) => write(&port, b"@@ done\n"),
        Err(error) => write(&port, format!("@@ failed {error}\n").as_bytes()),
    }
    outcome
}

/// Mounts the usual file systems.
fn file_systems() -> Result<()> {
    let mounts = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
    ];
    mounts.into_iter().try_for_each(|(kind, target)| attach(kind, target))?;
    // For memory limits, terminals and shared memory.
    [("cgroup2", "/sys/fs/cgroup"), ("devpts", "/dev/pts"), ("tmpfs", "/dev/shm")]
        .into_iter()
        .try_for_each(|(kind, target)| attach(kind, target))?;
    // Tests create child cgroups with these controllers.
    Ok(fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory +cpu")?)
}

fn attach(kind: &str, target: impl AsRef<Path>) -> Result<()> {
    let target = target.as_ref();
    fs::create_dir_all(target)?;
    mount(kind, target, kind, MountFlags::empty(), None)
        .map_err(|error| format!("cannot mount {}: {error}", target.display()).into())
}

/// Mounts the files of the host, and the usual file systems below them.
fn home() -> Result<()> {
    const HOME: &str = "/host";
    if !Path::new(HOME).is_dir() {
        return Ok(());
    }
    let options = c"trans=virtio,version=9p2000.L,cache=loose,msize=262144";
    mount("host", HOME, "9p", MountFlags::RDONLY, options)
        .map_err(|error| format!("cannot mount {HOME}: {error}"))?;
    for place in ["/proc", "/sys", "/dev"] {
        // If a test unmounts them, the files of the host's kernel must not appear.
        attach("tmpfs", format!("{HOME}{place}"))?;
        mount_bind_recursive(place, format!("{HOME}{place}"))
            .map_err(|error| format!("cannot mount {HOME}{place}: {error}"))?;
    }
    for place in fs::read_to_string("/temporary")?.lines() {
        attach("tmpfs", format!("{HOME}{place}"))?;
    }
    Ok(())
}

/// Loads the drivers and configures the interfaces. Returns the kernel release and the interfaces
/// as text.
fn prepare() -> Result<String> {
    // The kernel must not send router solicitations among the frames that tests count.
    fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
    for path in sorted("/modules")? {
        finit_module(File::open(&path)?, &CString::default(), 0)
            .map_err(|error| format!("cannot load {}: {error}", path.display()))?;
    }
    command("/bin/ip", &["link", "set", "lo", "up"])?;
    let interfaces = interfaces()?;
    for name in &interfaces {
        if let Some(channels) = Ethtool::open(name)?.channels()? {
            // With queue pairs to spare, virtio_net spreads what it receives over more queues as
            // soon as a program is attached (virtnet_xdp_set), and the new ones belong to no port.
            // Before 5.18 it has no RSS (VIRTIO_NET_F_RSS): the queue of a flow depends on the
            // queue through which the guest sends.
            let pairs = if kernel::is_at_least(5, 18) { channels.max_combined } else { 1 };
            if name.starts_with("virtio") && channels.combined != pairs {
                command("/bin/ethtool", &["-L", name, "combined", &pairs.to_string()])?;
            }
        }
        // Test frames have destination addresses that belong to no station.
        command("/bin/ip", &["link", "set", name, "promisc", "on", "up"])?;
        if name.starts_with("igb") {
            // Hash the ports of UDP packets, too, as other drivers do by default.
            command("/bin/ethtool", &["-N", name, "rx-flow-hash", "udp4", "sdfn"])?;
        }
    }
    wait_for_carriers(&interfaces)?;

    let mut note = uname().release().to_string_lossy().into_owned();
    for name in &interfaces {
        let channels = Ethtool::open(name)?.channels()?.unwrap_or_default();
        note += &format!(", {name} with {} queues", channels.combined);
    }
    Ok(note)
}

/// Names each interface after its driver, with a number in the order of the bus: `igb0`, `igb1`.
fn interfaces() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (_, name) in iface::list()? {
        let driver = Ethtool::open(&name)?.driver()?.unwrap_or_default();
        if !driver.bus.is_empty() {
            found.push((driver.driver, driver.bus, name));
        }
    }
    found.sort();
    let mut names: Vec<String> = Vec::new();
    for (driver, _, old) in found {
        let prefix = driver.trim_end_matches("_net");
        let number = names.iter().filter(|name| name.starts_with(prefix)).count();
        let name = format!("{prefix}{number}");
        command("/bin/ip", &["link", "set", &old, "name", &name])?;
        names.push(name);
    }
    Ok(names)
}

/// An emulated igb negotiates its link for a second or two.
fn wait_for_carriers(interfaces: &[String]) -> Result<()> {
    for name in interfaces {
        iface::wait_until_running(name, Duration::from_secs(30))?;
    }
    Ok(())
}

fn sorted(directory: &str) -> Result<Vec<PathBuf>> {
    let entries: std::io::Result<Vec<_>> = fs::read_dir(directory)?.collect();
    let mut paths: Vec<_> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn command(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), reason.trim()).into())
}

/// A line of the plan.
struct Program<'a> {
    name: &'a str,
    limit: Duration,
    environment: Vec<(&'a str, &'a str)>,
    /// The program and its arguments.
    command: Vec<&'a str>,
    beside: Option<Vec<&'a str>>,
    /// The program starts when this interface has received packets.
    after: Option<&'a str>,
}

impl<'a> Program<'a> {
    fn parse(line: &'a str) -> Result<Self> {
        let malformed = || format!("not a line of a plan: {line:?}");
        let (settings, command) = line.split_once("\t--\t").ok_or_else(malformed)?;
        let mut settings = settings.split('\t');
        let name = settings.next().ok_or_else(malformed)?;
        let seconds = settings.next().ok_or_else(malformed)?.parse()?;
        let mut after = None;
        let variables = settings.filter(|setting| match setting.strip_prefix("@after=") {
            Some(interface) => after.replace(interface).is_some(),
            None => true,
        });
        let environment: Option<Vec<_>> = variables.map(|one| one.split_once('=')).collect();
        let (command, beside) = match command.split_once("\t--beside\t") {
            Some((command, beside)) => (command, Some(beside.split('\t').collect())),
            None => (command, None),
        };
        Ok(Self {
            name,
            limit: Duration::from_secs(seconds),
            environment: environment.ok_or_else(malformed)?,
            command: command.split('\t').collect(),
            beside,
            after,
        })
    }

    /// Starts `command` with a pipe for its output, so that it does not write to a terminal.
    fn start(&self, command: &[&str], port: &Port) -> Result<Running> {
        let [program, arguments @ ..] = command else { return Err("no program".into()) };
        let (output, input) = io::pipe()?;
        let child = Command::new(program)
            .args(arguments)
            .envs(self.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(input.try_clone()?)
            .stderr(input)
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let (copied, all_copied) = channel();
        let port = Arc::clone(port);
        thread::spawn(move || {
            copy(output, &port);
            let _ = copied.send(());
        });
        Ok(Running { child, all_copied })
    }
}

/// Copies whole lines, so that two concurrent programs do not split each other's lines.
fn copy(output: PipeReader, port: &Port) {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        write(port, &line);
        line.clear();
    }
}

fn write(port: &Port, bytes: &[u8]) {
    let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
    // There is no other way to report a failure. The reader notices that the last line is missing.
    let _ = port.write_all(bytes);
}

/// Runs `program` to its end, or kills it at its limit.
fn run(program: &Program<'_>, port: &Port) {
    write(port, format!("\n@@ run {}\n", program.name).as_bytes());
    let start = Instant::now();
    let end =
        attempt(program, port, start + program.limit).unwrap_or_else(|error| error.to_string());
    let seconds = start.elapsed().as_secs_f64();
    write(port, format!("\n@@ end {seconds:.1} {end}\n").as_bytes());
}

/// Runs `program` and the program beside it. Returns how the first ended, and how the second ended
/// if it failed.
fn attempt(program: &Program<'_>, port: &Port, deadline: Instant) -> Result<String> {
    let beside =
        program.beside.as_deref().map(|command| program.start(command, port)).transpose()?;
    if let Some(interface) = program.after {
        wait_for_packets(interface)?;
    }
    let end = program.start(&program.command, port).and_then(|running| running.wait(deadline));
    let Some(beside) = beside else { return end };
    kill_process(Pid::from_child(&beside.child), Signal::INT)?;
    let other = beside.wait(deadline)?;
    let end = end?;
    Ok(if other == SUCCESS { end } else { format!("{end}, beside it: {other}") })
}

/// Waits until an interface receives packets, at most 30 seconds. If there are none, the program
/// that needs them reports it.
fn wait_for_packets(interface: &str) -> Result<()> {
    let path = format!("/sys/class/net/{interface}/statistics/rx_packets");
    let received = || Ok::<u64, Box<dyn Error>>(fs::read_to_string(&path)?.trim().parse()?);
    let (before, deadline) = (received()?, Instant::now() + Duration::from_secs(30));
    // The driver reads the counters of the card every two seconds (igb_watchdog_task).
    while received()? == before && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    Ok(())
}

/// A program that was started.
struct Running {
    child: Child,
    /// Receives a message when all of its output has been copied.
    all_copied: Receiver<()>,
}

impl Running {
    /// Waits until the program ends and returns how it ended. Kills it at the deadline.
    fn wait(mut self, deadline: Instant) -> Result<String> {
        let end = loop {
            if let Some(status) = self.child.try_wait()? {
                break status.code().map_or(status.to_string(), |code| format!("exit {code}"));
            }
            if Instant::now() > deadline {
                self.child.kill()?;
                self.child.wait()?;
                break "killed at its time limit".to_owned();
            }
            thread::sleep(POLL);
        };
        // The wait has a limit: a child of the program may have inherited the pipe and still run.
        let _ = self.all_copied.recv_timeout(Duration::from_secs(20));
        Ok(end)
    }
}

const SUCCESS: &str = "exit 0";
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_plan_is_parsed() {
        let program = Program::parse("list\t20\tA=1\tB=x=y\t--\t/bin/ls\t-l\t/").unwrap();
        assert_eq!((program.name, program.limit.as_secs()), ("list", 20));
        assert_eq!(program.environment, [("A", "1"), ("B", "x=y")]);
        assert_eq!(program.command, ["/bin/ls", "-l", "/"]);
        assert_eq!(program.beside, None);
        assert_eq!(program.after, None);
        let program = Program::parse("list\t20\t@after=igb0\t--\tls\t--beside\tcat\tx").unwrap();
        assert_eq!((program.after, program.environment.len()), (Some("igb0"), 0));
        assert_eq!((program.command, program.beside), (vec!["ls"], Some(vec!["cat", "x"])));
    }

    #[test]
    fn malformed_line_of_a_plan_is_refused() {
        for line in ["", "list", "list\t20", "list\tx\t--\tls", "list\t1\tA\t--\tls"] {
            assert!(Program::parse(line).is_err(), "{line:?}");
        }
    }
}
