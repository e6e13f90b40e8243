//! The kinds of sources: Parquet files, or files of packets.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use datafusion::datasource::listing::ListingTableUrl;
use url::Url;
use wirelane::pcap::FileId;
use wirelane::{Error, Result};

/// The file that marks a directory of `wirelane record`.
const STORE_FILE: &str = "wirelane.store";
/// The first bytes of Parquet files.
const MAGIC: &[u8; 4] = b"PAR1";

/// The sources of the tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableSources {
    /// Parquet files and directories (their URLs end with `/`), here or in object stores, with rows
    /// of either table.
    pub(crate) parquet: Vec<ListingTableUrl>,
    /// For `packets`: capture files, and directories of `wirelane record`.
    pub(crate) packets: Vec<PathBuf>,
}

impl TableSources {
    pub(crate) fn parse(words: &[OsString]) -> Result<Self> {
        let mut sources = Self::default();
        for word in words {
            let url = word.to_str().filter(|text| text.contains("://"));
            match url {
                Some(text) if !text.starts_with("file://") => sources.parquet.push(remote(text)?),
                Some(text) => sources.add(&local(text)?)?,
                None => sources.add(Path::new(word))?,
            }
        }
        Ok(sources)
    }

    /// Refuses an output that would replace a source, or a file in a source directory.
    ///
    /// # Errors
    /// `target` is such a file.
    pub(crate) fn refuse_to_replace(&self, target: &Path) -> Result<()> {
        let Some(target_id) = FileId::at(target) else { return Ok(()) };
        let Ok(target_path) = fs::canonicalize(target) else { return Ok(()) };
        let parquet = self.parquet.iter().filter_map(|url| Url::parse(url.as_str()).ok());
        let parquet = parquet.filter_map(|url| url.to_file_path().ok());
        for source in parquet.chain(self.packets.iter().cloned()) {
            let Ok(source_path) = fs::canonicalize(&source) else { continue };
            let is_part = source_path.is_dir() && target_path.starts_with(&source_path);
            if is_part || FileId::at(&source_path) == Some(target_id) {
                let cause = format!("it is a source of the query ({})", source.display());
                return Err(Error::usage(target.display().to_string(), cause)
                    .help("write the answer to another file"));
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let object = || path.display().to_string();
        let about = fs::metadata(path).map_err(|error| Error::io(object(), "stat", error))?;
        let is_parquet = match about.is_dir() {
            true => !path.join(STORE_FILE).exists(),
            false => looks_like_parquet(path)?,
        };
        if !is_parquet {
            self.packets.push(path.to_owned());
            return Ok(());
        }
        let path = fs::canonicalize(path).map_err(|error| Error::io(object(), "stat", error))?;
        let url = match about.is_dir() {
            true => Url::from_directory_path(&path),
            false => Url::from_file_path(&path),
        };
        let url = url.map_err(|()| Error::failed(object(), "its path is no URL"))?;
        self.parquet.push(parsed(url)?);
        Ok(())
    }
}

/// Whether the file has the suffix of Parquet, whatever its content, or the first bytes.
fn looks_like_parquet(path: &Path) -> Result<bool> {
    if path.extension().is_some_and(|suffix| suffix == "parquet") {
        return Ok(true);
    }
    // Opening a pipe would wait for its writer.
    if !path.is_file() {
        return Ok(false);
    }
    let object = || path.display().to_string();
    let file = File::open(path).map_err(|error| Error::io(object(), "open", error))?;
    let mut begin = Vec::new();
    file.take(MAGIC.len() as u64)
        .read_to_end(&mut begin)
        .map_err(|error| Error::io(object(), "read", error))?;
    Ok(begin == MAGIC)
}

fn local(text: &str) -> Result<PathBuf> {
    let url = Url::parse(text).map_err(|error| Error::usage(text, error.to_string()))?;
    url.to_file_path().map_err(|()| {
        Error::usage(text, "it names another host").help("write file:///PATH, or the path alone")
    })
}

/// A file if the suffix is `.parquet`, otherwise a prefix.
fn remote(text: &str) -> Result<ListingTableUrl> {
    let is_file = text.ends_with(".parquet") || text.ends_with('/');
    let text = if is_file { text.to_owned() } else { format!("{text}/") };
    let url = Url::parse(&text).map_err(|error| {
        Error::usage(text, error.to_string()).help("write s3://BUCKET/PREFIX, gs://… or az://…")
    })?;
    parsed(url)
}

fn parsed(url: Url) -> Result<ListingTableUrl> {
    let text = url.to_string();
    ListingTableUrl::try_new(url, None).map_err(|error| Error::usage(text, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_replaces_a_source() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir(path("flows")).unwrap();
        for name in ["flows/a.parquet", "b.parquet", "c.pcap", "answer.csv"] {
            fs::write(path(name), "PAR1").unwrap();
        }
        std::os::unix::fs::symlink(path("c.pcap"), path("link")).unwrap();
        fs::hard_link(path("b.parquet"), path("hard")).unwrap();
        let words = ["flows", "b.parquet", "c.pcap"].map(|name| path(name).into_os_string());
        let sources = TableSources::parse(&words).unwrap();
        for name in ["flows/a.parquet", "b.parquet", "c.pcap", "link", "hard"] {
            let error = sources.refuse_to_replace(&path(name)).unwrap_err().to_string();
            assert!(error.contains("it is a source of the query"), "{error}");
        }
        for name in ["answer.csv", "new.csv", "flows/new.parquet"] {
            sources.refuse_to_replace(&path(name)).unwrap();
        }
    }

    #[test]
    fn sources_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir(path("flows [1]")).unwrap();
        fs::create_dir(path("store")).unwrap();
        fs::write(path("store").join(STORE_FILE), "").unwrap();
        fs::write(path("a.parquet"), "half").unwrap();
        fs::write(path("b"), "PAR1…").unwrap();
        fs::write(path("c.pcap"), "PA").unwrap();
        let names = ["flows [1]", "store", "a.parquet", "b", "c.pcap"];
        let mut words: Vec<OsString> = names.map(|name| path(name).into_os_string()).to_vec();
        words.push("s3://bucket/some/prefix".into());
        let sources = TableSources::parse(&words).unwrap();
        assert_eq!(sources.packets, [path("store"), path("c.pcap")]);
        let flows: Vec<_> = sources.parquet.iter().map(ListingTableUrl::as_str).collect();
        assert!(flows[0].ends_with("/flows%20[1]/"), "{flows:?}");
        assert!(flows[1].ends_with("/a.parquet") && flows[2].ends_with("/b"), "{flows:?}");
        assert_eq!(flows[3], "s3://bucket/some/prefix/");
        let error = TableSources::parse(&["missing".into()]).unwrap_err().to_string();
        assert!(error.contains("missing") && error.contains("ENOENT"), "{error}");
    }
}
