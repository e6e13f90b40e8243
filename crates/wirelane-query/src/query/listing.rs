//! Finds Parquet files: in directories `date=…/hour=…/host=…/`, or anywhere else.
//!
//! A directory tree is one table of the engine, whose `date=`, `hour=` and `host=` directories are
//! columns. Other files have these columns from their paths, or null. All files of a table have one
//! schema, so no file is read before a query needs it. The first file of a source shows whether its
//! rows are flows or packets.

use datafusion::datasource::listing::ListingTableUrl;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use wirelane::{Error, Result};

use super::failure;

/// Columns that directory names can give to all their rows, the outermost first.
pub(crate) const PARTITIONS: [&str; 3] = ["date", "hour", "host"];
/// Most levels of directories to search.
const DEPTH: usize = 16;
const SUFFIX: &str = ".parquet";

/// Files whose directories give the same columns.
#[derive(Clone, Debug)]
pub(crate) struct ListingPart {
    pub(crate) url: ListingTableUrl,
    /// Values from directories above, by the index of [`PARTITIONS`].
    pub(crate) known: [Option<String>; 3],
    /// Directories below give the columns `PARTITIONS[below..]`.
    pub(crate) below: usize,
    /// The suffix of file names.
    pub(crate) suffix: &'static str,
}

/// All parts below a directory, or the part of a single file.
///
/// # Errors
/// The store refuses, or there are no files.
pub(crate) async fn parts(
    store: &dyn ObjectStore,
    url: &ListingTableUrl,
) -> Result<Vec<ListingPart>> {
    let known = known(url.prefix());
    if !url.is_collection() {
        // Check that it exists: the engine would read a missing file as an empty table.
        store.head(url.prefix()).await.map_err(failure::store)?;
        return Ok(vec![ListingPart {
            url: url.clone(),
            known,
            below: PARTITIONS.len(),
            suffix: "",
        }]);
    }
    let mut found = Vec::new();
    let mut waiting = vec![(url.prefix().clone(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        let listed = list(store, &directory).await?;
        let known = self::known(&directory);
        let next = next_of(&known);
        let hive = match next {
            Some(next) => is_complete(store, &listed, next).await?,
            None => false,
        };
        if let Some(next) = next.filter(|_| hive) {
            let url = below(url, &directory, true)?;
            found.push(ListingPart { url, known: known.clone(), below: next, suffix: SUFFIX });
        }
        let has_equals = |path: &Path| path.filename().is_some_and(|name| name.contains('='));
        let others = listed.common_prefixes.iter();
        let is_plain = !others.clone().any(has_equals);
        if depth < DEPTH {
            let is_hive = |path: &Path| hive && next.is_some_and(|next| names(path, next));
            waiting
                .extend(others.filter(|path| !is_hive(path)).map(|path| (path.clone(), depth + 1)));
        }
        let files = listed.objects.iter().filter(|file| file.location.as_ref().ends_with(SUFFIX));
        let flat = |url| ListingPart {
            url,
            known: known.clone(),
            below: PARTITIONS.len(),
            suffix: SUFFIX,
        };
        if is_plain && files.clone().next().is_some() {
            found.push(flat(below(url, &directory, true)?));
        } else {
            // As a directory, it would include the files of directories with `=`.
            for file in files {
                found.push(flat(below(url, &file.location, false)?));
            }
        }
    }
    if found.is_empty() {
        return Err(Error::failed(url.as_str(), "there are no Parquet files in it").help(
            "`wirelane flows SOURCE -w DIR/` writes some; a file appears when it is complete",
        ));
    }
    Ok(found)
}

/// The first Parquet file below a directory, or the file itself.
///
/// # Errors
/// The store refuses.
pub(crate) async fn first(
    store: &dyn ObjectStore,
    url: &ListingTableUrl,
) -> Result<Option<ObjectMeta>> {
    if !url.is_collection() {
        return store.head(url.prefix()).await.map(Some).map_err(failure::store);
    }
    let mut files = store.list(Some(url.prefix()));
    while let Some(file) = files.try_next().await.map_err(failure::store)? {
        if file.location.as_ref().ends_with(SUFFIX) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The column values in the directories of a path.
fn known(path: &Path) -> [Option<String>; 3] {
    PARTITIONS.map(|name| {
        let mut values = path.parts().filter_map(|part| {
            let part = part.as_ref().to_owned();
            part.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
        });
        values.next_back()
    })
}

/// The column after the innermost one that directories above give.
fn next_of(known: &[Option<String>; 3]) -> Option<usize> {
    let next = known.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    (next < PARTITIONS.len()).then_some(next)
}

/// Whether the first directory of each level has directories of the next level, so that the engine
/// can list them.
async fn is_complete(store: &dyn ObjectStore, listed: &ListResult, next: usize) -> Result<bool> {
    let mut first = listed.common_prefixes.iter().find(|path| names(path, next)).cloned();
    for level in next + 1..PARTITIONS.len() {
        let Some(directory) = first else { return Ok(false) };
        let listed = list(store, &directory).await?;
        first = listed.common_prefixes.into_iter().find(|path| names(path, level));
    }
    Ok(first.is_some())
}

/// Whether the directory has the name of a partition, such as `date=…`.
fn names(path: &Path, partition: usize) -> bool {
    path.filename()
        .and_then(|name| name.strip_prefix(PARTITIONS[partition]))
        .is_some_and(|rest| rest.starts_with('='))
}

async fn list(store: &dyn ObjectStore, directory: &Path) -> Result<ListResult> {
    store.list_with_delimiter(Some(directory)).await.map_err(failure::store)
}

/// The URL of a path in the same store.
fn below(url: &ListingTableUrl, path: &Path, is_directory: bool) -> Result<ListingTableUrl> {
    let mut new = url.get_url().clone();
    new.set_path("");
    if let Ok(mut segments) = new.path_segments_mut() {
        segments.clear().extend(path.parts().map(|part| part.as_ref().to_owned()));
        if is_directory {
            segments.push("");
        }
    }
    ListingTableUrl::try_new(new, None).map_err(failure::of)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    fn found(files: &[&str], at: &str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(InMemory::new());
            for file in files {
                store.put(&Path::from(*file), "PAR1".into()).await.unwrap();
            }
            let url = ListingTableUrl::parse(format!("s3://bucket/{at}")).unwrap();
            let mut parts: Vec<_> = match parts(store.as_ref(), &url).await {
                Ok(parts) => parts,
                Err(error) => return vec![error.to_string()],
            }
            .into_iter()
            .map(|part| {
                let known: Vec<_> =
                    part.known.iter().map(|it| it.as_deref().unwrap_or("-")).collect();
                format!("{} {} {}", part.url.prefix(), known.join(","), part.below)
            })
            .collect();
            parts.sort();
            parts
        })
    }

    const HIVE: &str = "f/date=2026-11-23/hour=02/host=a/x.parquet";

    #[test]
    fn a_directory_that_the_sink_wrote_is_one_part() {
        let files = [HIVE, "f/date=2026-11-24/hour=03/host=b/y.parquet"];
        assert_eq!(found(&files, "f/"), ["f -,-,- 0"]);
        assert_eq!(found(&files, ""), ["f -,-,- 0"]);
        assert_eq!(found(&files, "f/date=2026-11-24/"), ["f/date=2026-11-24 2026-11-24,-,- 1"]);
        let file = "f/date=2026-11-24/hour=03/host=b/y.parquet";
        assert_eq!(found(&files, file), [format!("{file} 2026-11-24,03,b 3")]);
    }

    #[test]
    fn other_files_are_found_too_and_none_twice() {
        let files = [HIVE, "f/z.parquet", "f/more/u.parquet", "f/more/v.parquet", "f/note.txt"];
        assert_eq!(found(&files, "f/"), ["f -,-,- 0", "f/more -,-,- 3", "f/z.parquet -,-,- 3"]);
        assert_eq!(
            found(&["f/date=2026-11-23/x.parquet"], "f/"),
            ["f/date=2026-11-23 2026-11-23,-,- 3"]
        );
    }

    #[test]
    fn nothing_is_an_error() {
        assert!(found(&[HIVE], "g/")[0].contains("no Parquet files"));
        assert!(found(&[HIVE], "f/none.parquet")[0].contains("no such file"));
    }
}
