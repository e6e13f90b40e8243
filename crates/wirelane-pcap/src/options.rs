//! Options for writing a capture.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::access::Access;
use crate::cancel::Cancel;
use crate::compression::{Compression, CompressionOptions};
use crate::format::FileFormat;
use crate::identity::FileId;
use crate::record::Section;
use crate::room::Room;
use crate::rotate::Rotation;

/// Format, compression and rotation of the output, and files that it must not overwrite. Each field
/// has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriterOptions {
    /// File format.
    pub format: FileFormat,
    /// Compression, if any.
    pub compression: Option<CompressionOptions>,
    /// Rotation, if any.
    pub rotation: Rotation,
    /// Describes the program and the machine that write the file.
    pub section: Section,
    /// Creates a new file: if the name is taken, a number is added to the name, as in
    /// `NAME-1.pcapng`. The files of a rotation are always new.
    pub fresh: bool,
    /// Files that are being read. The writer never overwrites them, under any name.
    pub inputs: Vec<FileId>,
    /// Access rights of the files.
    pub access: Access,
    /// Ends waiting for the reader of a pipe.
    pub cancel: Cancel,
    /// The available memory, of which compression uses a part.
    pub room: fn() -> Room,
    /// An open file to write to, such as the input of a program. Then the path is only used in
    /// errors, and there is no rotation.
    pub open: Option<Arc<File>>,
}

wirelane_wire::setters!(WriterOptions:
    format: FileFormat,
    compression: Option<CompressionOptions>,
    rotation: Rotation,
    section: Section,
    fresh: bool,
    inputs: Vec<FileId>,
    access: Access,
    cancel: Cancel,
    open: Option<Arc<File>>;
    room: fn() -> Room,
);

impl Default for WriterOptions {
    /// pcapng, without compression and rotation.
    fn default() -> Self {
        Self::of_path(Path::new(""))
    }
}

impl WriterOptions {
    /// Format and compression by the suffix of the path, without rotation.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        let application = concat!("wirelane ", env!("CARGO_PKG_VERSION")).into();
        Self {
            format: FileFormat::of_path(path),
            compression: Compression::of_path(path).map(CompressionOptions::fastest),
            rotation: Rotation::default(),
            section: Section { application, ..Section::default() },
            fresh: false,
            inputs: Vec::new(),
            access: Access::default(),
            cancel: Cancel::default(),
            room: Room::unlimited,
            open: None,
        }
    }
}
