//! The guest's file system: an archive that the kernel unpacks into memory.
//!
//! It has programs of this machine, with the shared libraries that they load.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::cargo;

/// A cpio archive in the form "newc" (Documentation/driver-api/early-userspace/buffer-format.rst).
#[derive(Default)]
pub(crate) struct Initramfs {
    archive: Vec<u8>,
    present: BTreeSet<String>,
    inode: u32,
}

impl Initramfs {
    /// An empty directory and its parents.
    pub(crate) fn directory(&mut self, path: &str) {
        self.parents(path);
        if self.present.insert(path.to_owned()) {
            self.entry(path, 0o040_755, &[]);
        }
    }

    /// An executable file with these bytes.
    pub(crate) fn file(&mut self, path: &str, bytes: &[u8]) {
        self.parents(path);
        if self.present.insert(path.to_owned()) {
            self.entry(path, 0o100_755, bytes);
        }
    }

    /// A program of this machine, at `path`. Its libraries have the same paths as on this machine.
    pub(crate) fn program(&mut self, path: &str, source: &Path) -> Result<(), String> {
        let read = |source: &Path| {
            fs::read(source).map_err(|error| format!("cannot read {}: {error}", source.display()))
        };
        self.file(path, &read(source)?);
        let list = cargo::output(Command::new("ldd").arg(source))
            .ok_or_else(|| format!("ldd does not know the libraries of {}", source.display()))?;
        for library in libraries(&list) {
            if !self.present.contains(library) {
                self.file(library, &read(Path::new(library))?);
            }
        }
        Ok(())
    }

    /// Writes the archive to `path`.
    pub(crate) fn write(mut self, path: &Path) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, &[]);
        fs::write(path, self.archive)
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/')
            && !parent.is_empty()
        {
            self.directory(parent);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.inode += 1;
        let name = path.trim_start_matches('/');
        // Inode, mode, owner, group, links, time, size, device, special device, name size, check.
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let (size, name_size) = (length(bytes.len()), length(name.len() + 1));
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.archive.extend(b"070701");
        for field in fields {
            self.archive.extend(format!("{field:08x}").bytes());
        }
        self.archive.extend(name.bytes());
        self.archive.push(0);
        self.pad();
        self.archive.extend(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.archive.resize(self.archive.len().next_multiple_of(4), 0);
    }
}

/// The paths in the output of `ldd`; a program that loads no library has none.
fn libraries(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| {
        let line = line.trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        path.starts_with('/').then(|| path.split(" (").next())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_that_ldd_lists() {
        let list = "\
\tlinux-vdso.so.1 (0x00007fd010789000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fd0103f9000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007fd01078b000)
";
        let found: Vec<_> = libraries(list).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(libraries("\tstatically linked\n").count(), 0);
    }

    #[test]
    fn archive_is_aligned_and_has_directories_first() {
        let mut initramfs = Initramfs::default();
        initramfs.file("/a/b/c", b"12345");
        initramfs.file("/a/b/d", b"");
        let text = String::from_utf8_lossy(&initramfs.archive).into_owned();
        assert_eq!(text.matches("070701").count(), 4);
        // A header is 110 bytes; "a/b/c" and its zero byte end on a boundary of 4.
        assert!(text.ends_with("a/b/d\0") && text.contains("a/b/c\x0012345\0\0\x00070701"));
        assert_eq!(initramfs.archive.len() % 4, 0);
    }
}
