//! The units of the packages, and their files of options (`packaging/`).

use tempfile::tempdir;
use wirelane_testkit::tools;

use super::*;

/// The services: their command, and what follows its port.
const SERVICES: [&str; 3] = ["capture", "flows", "record"];

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

fn unit(command: &str) -> String {
    fs::read_to_string(packaging(&format!("systemd/wirelane-{command}@.service"))).unwrap()
}

#[test]
fn units_are_correct_and_hardened() {
    if !tools::require("systemd-analyze") {
        return;
    }
    let directory = tempdir().unwrap();
    for command in SERVICES {
        let path = directory.path().join(format!("wirelane-{command}@eth0.service"));
        // The program is not installed here.
        fs::write(&path, unit(command).replace("/usr/bin/wirelane", WIRELANE)).unwrap();
        let verified =
            output(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path));
        assert!(verified.status.success(), "{command}: {}", verified.stderr);
        assert!(!verified.stderr.contains(&format!("wirelane-{command}")), "{}", verified.stderr);
        let mut security = Command::new("systemd-analyze");
        // 2.0: the lowest level of exposure.
        security.args(["security", "--offline=yes", "--threshold=20"]).arg(&path);
        let judged = output(&mut security);
        assert!(judged.status.success(), "{command}: {}", judged.stdout);
    }
}

/// A setting that one unit lacks is a mistake, unless it is about its output or its addresses.
#[test]
fn units_differ_only_where_they_must() {
    let common = |command: &str| -> Vec<String> {
        let own = ["ExecStart=", "StateDirectory=", "Description=", "Documentation=", "Limit"];
        let own =
            [&own[..], &["StandardOutput=", "StandardError=", "RestrictAddress", "IPAddress"]]
                .concat();
        let is_common = |line: &&str| {
            !line.is_empty()
                && !line.starts_with(['#', ' '])
                && !own.iter().any(|it| line.starts_with(it))
        };
        unit(command).lines().filter(is_common).map(str::to_owned).collect()
    };
    let expected = common("record");
    assert!(expected.contains(&"Type=notify".to_owned()) && expected.len() > 30, "{expected:?}");
    SERVICES.iter().for_each(|command| assert_eq!(common(command), expected, "{command}"));
}

/// Each option that a file has, or proposes in a comment, is one that the command accepts.
#[test]
fn every_option_of_the_files_is_accepted() {
    let directory = tempdir().unwrap();
    let (config, output_path) = (directory.path().join("x.conf"), directory.path().join("out"));
    for command in SERVICES {
        let text = fs::read_to_string(packaging(&format!("conf/{command}.conf"))).unwrap();
        let of = |line: &str| {
            let option = line.strip_prefix('#').unwrap_or(line);
            (option.starts_with(|c: char| c.is_ascii_lowercase())).then(|| option.to_owned())
        };
        let options: Vec<_> = text.lines().filter_map(of).collect();
        assert!(options.len() > 6, "{command}: {options:?}");
        for option in &options {
            // They need the other program, and a collector.
            if ["write", "ipfix"].iter().any(|key| option.starts_with(key)) {
                continue;
            }
            fs::write(&config, format!("{option}\n")).unwrap();
            let mut run = wirelane([command, "-q", "--config", config.to_str().unwrap()]);
            run.arg("sim:1?count=10");
            match command {
                "capture" => run.arg("-w").arg(output_path.with_extension("pcapng")),
                "record" => run.arg(&output_path),
                _ => &mut run,
            };
            // Only with a rotation.
            if option.starts_with("rotate-files") {
                run.args(["-C", "1M"]);
            }
            let ran = output(&mut run);
            assert!(ran.status.success(), "{command} {option}: {}", ran.stderr);
        }
    }
}
