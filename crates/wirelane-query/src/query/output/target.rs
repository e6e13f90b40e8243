//! The destination of an answer. A file gets its name when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::NamedTempFile;
use wirelane::{Error, Result};

use super::escaped::Escaped;
use super::format::AnswerFormat;

/// Takes bytes, and stores its error: writers of formats convert errors to text.
pub(crate) struct OutputTarget {
    to: TargetKind,
    name: String,
    failure: OutputFailure,
}

/// The stored error.
#[derive(Clone, Default)]
pub(crate) struct OutputFailure(Arc<Mutex<Option<Error>>>);

enum TargetKind {
    Output(io::Stdout),
    Terminal(Escaped<io::Stdout>),
    /// The temporary file, and its final path.
    Beside(NamedTempFile, PathBuf),
    /// A pipe, a terminal or another device.
    Device(File),
}

/// Temporary files. A stopped writer cannot remove its file.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes temporary files before the process ends.
pub(crate) fn remove_unfinished() {
    for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // Most are already removed or renamed.
        let _ = fs::remove_file(path);
    }
}

impl OutputTarget {
    /// Standard output for rows in this format. A terminal gets CSV and JSON with hostile
    /// characters escaped; tables escape them everywhere.
    pub(crate) fn output(format: AnswerFormat) -> Self {
        let is_text = matches!(format, AnswerFormat::Csv | AnswerFormat::Json);
        let to = match is_text && io::stdout().is_terminal() {
            true => TargetKind::Terminal(Escaped::new(io::stdout(), format)),
            false => TargetKind::Output(io::stdout()),
        };
        Self::new(to, "standard output".to_owned())
    }

    /// # Errors
    /// The file cannot be opened or created.
    pub(crate) fn file(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |call, error| Error::io(path.display().to_string(), call, error);
        let is_device = fs::metadata(path).is_ok_and(|about| !about.is_file());
        if is_device {
            let file =
                OpenOptions::new().write(true).open(path).map_err(|error| failed("open", error))?;
            return Ok(Self::new(TargetKind::Device(file), name));
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::metadata(directory).map_err(|error| failed("open", error))?;
        // Only its owner may read it, like all files of the command.
        let beside = tempfile::Builder::new()
            .prefix(".wirelane-")
            .tempfile_in(directory)
            .map_err(|error| failed("open", error.kind().into()))?;
        let unfinished = beside.path().to_owned();
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(unfinished);
        Ok(Self::new(TargetKind::Beside(beside, path.to_owned()), name))
    }

    fn new(to: TargetKind, name: String) -> Self {
        Self { to, name, failure: OutputFailure::default() }
    }

    pub(crate) fn is_output(&self) -> bool {
        matches!(self.to, TargetKind::Output(_) | TargetKind::Terminal(_))
    }

    /// The error of the target, to be read after a writer owns the target.
    pub(crate) fn failure(&self) -> OutputFailure {
        self.failure.clone()
    }

    /// Flushes, and gives a file its name.
    ///
    /// # Errors
    /// The target fails, or the file cannot be renamed.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.to.flush().map_err(|error| Error::io(self.name.clone(), "write", error))?;
        match self.to {
            TargetKind::Beside(file, path) => file
                .persist(path)
                .map(|_| ())
                .map_err(|error| Error::io(self.name, "rename", error.error)),
            TargetKind::Output(_) | TargetKind::Terminal(_) | TargetKind::Device(_) => Ok(()),
        }
    }
}

impl OutputFailure {
    /// The target's error if there is one, otherwise the writer's.
    pub(crate) fn or(&self, text: impl ToString) -> Error {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        said.unwrap_or_else(|| Error::failed("the answer", text.to_string()))
    }

    fn set(&self, error: Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

impl Write for OutputTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).map_err(|error| self.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().map_err(|error| self.note(error))
    }
}

impl OutputTarget {
    fn note(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        if kind != io::ErrorKind::Interrupted {
            self.failure.set(Error::io(self.name.clone(), "write", error));
        }
        kind.into()
    }
}

impl Write for TargetKind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Output(to) => to.write(bytes),
            Self::Terminal(to) => to.write(bytes),
            Self::Beside(to, _) => to.write(bytes),
            Self::Device(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Output(to) => to.flush(),
            Self::Terminal(to) => to.flush(),
            Self::Beside(to, _) => to.flush(),
            Self::Device(to) => to.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answer.json");
        let mut target = OutputTarget::file(&path).unwrap();
        target.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(target);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut target = OutputTarget::file(&path).unwrap();
        target.write_all(b"whole").unwrap();
        target.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }
}
