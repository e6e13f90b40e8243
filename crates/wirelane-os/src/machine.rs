//! Names of the machine's CPU, system and host.

use rustix::system::uname;

/// The CPU's model name; `None` if unknown.
#[must_use]
pub fn cpu_model() -> Option<String> {
    brand().filter(|name| !name.is_empty())
}

/// The operating system, such as `Linux 6.18.5`.
#[must_use]
pub fn system() -> String {
    let name = uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
}

/// The first two numbers of the kernel's release: `[6, 1]` of `6.1.0-56-amd64`. Use it only for
/// features that no call reports; kernels of enterprise distributions have more features than their
/// number says.
#[must_use]
pub fn kernel() -> [u32; 2] {
    numbers(&uname().release().to_string_lossy())
}

fn numbers(release: &str) -> [u32; 2] {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse());
    [(); 2].map(|()| numbers.next().and_then(Result::ok).unwrap_or(0))
}

/// The name of the host.
#[must_use]
pub fn host() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// From the CPU itself: for `/proc/cpuinfo`, the kernel measures the frequency of each CPU.
#[cfg(target_arch = "x86_64")]
fn brand() -> Option<String> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    // "Intel 64 and IA-32 Architectures Software Developer's Manual", CPUID, leaves 80000002H to
    // 80000004H.
    const NAMES: std::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(0x8000_0000).eax < *NAMES.end() {
        return None;
    }
    let words = NAMES.flat_map(|leaf| {
        let part = __cpuid_count(leaf, 0);
        [part.eax, part.ebx, part.ecx, part.edx]
    });
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).take_while(|byte| *byte != 0).collect();
    Some(String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Other processors have it in a file, if at all.
#[cfg(not(target_arch = "x86_64"))]
fn brand() -> Option<String> {
    let information = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    information.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_their_numbers() {
        assert_eq!(numbers("6.1.0-56-amd64"), [6, 1]);
        assert_eq!(numbers("6.18.44-fc"), [6, 18]);
        assert!(numbers("6.18.44") > [6, 8] && numbers("7") >= [6, 8]);
        assert!(kernel() > [4, 0]);
    }

    #[test]
    fn the_machine_is_the_one_that_the_kernel_knows() {
        let of = |path: &str| std::fs::read_to_string(path).unwrap();
        let release = of("/proc/sys/kernel/osrelease");
        assert_eq!(system(), format!("Linux {}", release.trim()));
        assert_eq!(host(), of("/proc/sys/kernel/hostname").trim());
        let information = of("/proc/cpuinfo");
        let known = information.lines().find_map(|line| line.strip_prefix("model name\t: "));
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cpu_model(), known.map(words).filter(|name| !name.is_empty()));
    }
}
