//! The choice of the table by the source that the settings name.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tokenfare_lanes::Calibrated;
use tokenfare_pricing::{Preference, TableShape, Wanted};
use tokenfare_settings::{CalibSettings, CalibSource, Platform};

use super::folder;
use super::report::measurement_lines;
use super::table_file::{ENGINE, StoredTable};
use super::{Costs, Identity, Source, Start};
use crate::files::{Existing, write_whole};
use crate::lines::Line;

/// What a start asks for.
pub struct Request<'a> {
    /// The settings.
    pub calib: &'a CalibSettings,
    /// The device's kind.
    pub platform: Platform,
    /// What the table is for.
    pub shape: TableShape,
}

/// What a mode does when the table it would read is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Default,
    Measure,
}

impl fmt::Display for Otherwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "the default table prices the rounds",
            Self::Measure => "measuring again",
        })
    }
}

const NO_FOLDER: &str = "stored tables have no folder: set TF_DSV41_CALIB_DIR or HOME";

fn skipped(path: &Path, why: impl fmt::Display) -> String {
    format!("stored table {} skipped: {why}", path.display())
}

/// A place for a measured table.
struct Target<'a> {
    path: PathBuf,
    identity: &'a Identity,
    existing: Existing,
}

impl Request<'_> {
    /// Chooses the table.
    pub fn choose(&self, start: &mut impl Start) -> Costs {
        match self.calib.source {
            CalibSource::Default => Costs::built_in(Vec::new()),
            CalibSource::Measure if self.platform == Platform::Cuda => self.measured_and_stored(start),
            CalibSource::Measure => self.measured(start, None, Vec::new()),
            CalibSource::Stored => self.stored(start),
            CalibSource::Cached => self.cached(start, Preference::Closest),
            CalibSource::Real => self.cached(start, Preference::Newest),
        }
    }

    /// The file that this engine's table for this start is kept in; `None` without a folder.
    pub fn own_file(&self, identity: &Identity) -> Option<PathBuf> {
        let named = self.calib.file.clone();
        let in_folder = || Some(self.calib.dir.as_ref()?.join(folder::file_name(self.shape, &identity.id)));
        named.or_else(in_folder)
    }

    /// Why a table of this engine's own file is not for this start; `None` when it is. A file that the user named is
    /// held against device, checkpoint, drafts flag and world alone.
    fn mismatch(&self, table: &StoredTable, identity: &Identity) -> Option<String> {
        let named = self.calib.file.is_some();
        let (found, shape) = (table.shape(), self.shape);
        let same_place = found.world == shape.world && found.dspark == shape.dspark;
        let same_owner = table.id == identity.id || (named && table.base == identity.base);
        if !same_owner || !same_place {
            let executable = if named { "" } else { ", executable" };
            return Some(format!("it is of another device, checkpoint{executable}, world or drafts flag"));
        }
        if !named && (found != shape || table.engine != ENGINE) {
            return Some(format!("it is of {} for {found}, expected {ENGINE} for {shape}", table.engine));
        }
        None
    }

    fn stored(&self, start: &mut impl Start) -> Costs {
        let identity = match start.identity() {
            Ok(identity) => identity,
            Err(cause) => return self.measured(start, None, vec![unused(&cause)]),
        };
        let Some(path) = self.own_file(&identity) else {
            let line = Line::warning(NO_FOLDER);
            return self.measured(start, None, vec![line]);
        };
        let named = self.calib.file.is_some();
        let missing = if named { Existing::Keep } else { Existing::Replace };
        let target = |existing| Some(Target { path: path.clone(), identity: &identity, existing });
        let table = match StoredTable::read(&path) {
            Err(cause) if cause.is_missing() => return self.measured(start, target(missing), Vec::new()),
            Err(cause) => Err(cause.to_string()),
            Ok(table) => match self.mismatch(&table, &identity) {
                Some(why) => Err(why),
                None => Ok(table),
            },
        };
        match table.map(|table| table.table()) {
            Ok(Ok(table)) => Costs { table, source: Source::Stored(path), lines: Vec::new() },
            Ok(Err(cause)) => {
                let words =
                    format!("stored table {} refused: {cause}; {}", path.display(), Otherwise::Measure);
                // A file that the user named is written only where it is missing.
                let target = if named { None } else { target(Existing::Replace) };
                self.measured(start, target, vec![Line::warning(&words)])
            }
            Err(why) => {
                let words =
                    format!("{}; {}, the file stays as it is", skipped(&path, why), Otherwise::Measure);
                self.measured(start, None, vec![Line::warning(&words)])
            }
        }
    }

    /// A table that is timed at every start and replaces the stored one.
    fn measured_and_stored(&self, start: &mut impl Start) -> Costs {
        let identity = match start.identity() {
            Ok(identity) => identity,
            Err(cause) => return self.measured(start, None, vec![unused(&cause)]),
        };
        match self.place(&identity) {
            Ok((path, existing)) => {
                self.measured(start, Some(Target { path, identity: &identity, existing }), Vec::new())
            }
            Err(why) => self.measured(start, None, vec![Line::warning(&why)]),
        }
    }

    /// Where a table can be stored, and over what.
    fn place(&self, identity: &Identity) -> Result<(PathBuf, Existing), String> {
        let path = self.own_file(identity).ok_or_else(|| NO_FOLDER.to_owned())?;
        match StoredTable::read(&path) {
            Err(cause) if cause.is_missing() => Ok((path, Existing::Keep)),
            Err(cause) => Err(format!("{}; the file stays as it is", skipped(&path, cause))),
            Ok(table) => match self.mismatch(&table, identity) {
                Some(why) => Err(format!("{}; the file stays as it is", skipped(&path, why))),
                None => Ok((path, Existing::Replace)),
            },
        }
    }

    /// Times a table and stores it where there is a place.
    fn measured(&self, start: &mut impl Start, target: Option<Target<'_>>, mut lines: Vec<Line>) -> Costs {
        let found = match start.measure() {
            Ok(found) => found,
            Err(cause) => {
                let words = if cause.is_refusal() {
                    format!("calibration refused: {cause}; {}", Otherwise::Default)
                } else {
                    format!("calibration failed ({cause}); {}", Otherwise::Default)
                };
                lines.push(Line::warning(&words));
                return Costs::built_in(lines);
            }
        };
        let mut end = "not stored".to_owned();
        if let Some(Target { path, identity, existing }) = target {
            match store(&path, &StoredTable::new(&found, self.shape, identity), existing) {
                Ok(()) => end = format!("stored {}", path.display()),
                Err(cause) => lines.push(Line::warning(&not_written(&path, &cause))),
            }
        }
        lines.extend(measurement_lines(&found, &end));
        Costs { table: found.measurement.table, source: Source::Measured, lines }
    }

    /// The best stored table of any engine, or the built-in one.
    fn cached(&self, start: &mut impl Start, preference: Preference) -> Costs {
        let identity = match start.identity() {
            Ok(identity) => identity,
            Err(cause) => {
                let words = format!("stored tables are not used: {cause:#}; {}", Otherwise::Default);
                return Costs::built_in(vec![Line::warning(&words)]);
            }
        };
        let mut lines = Vec::new();
        let found = match (&self.calib.file, &self.calib.dir) {
            (Some(file), _) => match self.named(file, &identity) {
                Ok(table) => Some((file.clone(), table)),
                Err(why) => {
                    let words = format!("{}; {}", skipped(file, why), Otherwise::Default);
                    lines.push(Line::warning(&words));
                    None
                }
            },
            (None, Some(folder)) => self.closest(folder, &identity, preference, &mut lines),
            (None, None) => {
                lines.push(Line::warning(NO_FOLDER));
                None
            }
        };
        let Some((path, table)) = found else { return Costs::built_in(lines) };
        match table.table() {
            Ok(table) => Costs { table, source: Source::Cached(path), lines },
            Err(cause) => {
                let words =
                    format!("stored table {} refused: {cause}; {}", path.display(), Otherwise::Default);
                lines.push(Line::warning(&words));
                Costs::built_in(lines)
            }
        }
    }

    /// The table in the file that the user named.
    fn named(&self, file: &Path, identity: &Identity) -> Result<StoredTable, String> {
        let table = StoredTable::read(file).map_err(|cause| cause.to_string())?;
        match self.mismatch(&table, identity) {
            Some(why) => Err(why),
            None => Ok(table),
        }
    }

    fn closest(
        &self,
        folder: &Path,
        identity: &Identity,
        preference: Preference,
        lines: &mut Vec<Line>,
    ) -> Option<(PathBuf, StoredTable)> {
        let mut listing = match folder::list(folder) {
            Ok(listing) => listing,
            Err(cause) => {
                let words = format!("folder of stored tables {} skipped: {cause}", folder.display());
                lines.push(Line::warning(&words));
                return None;
            }
        };
        lines.extend(listing.skipped.iter().map(|(path, why)| Line::warning(&skipped(path, why))));
        let candidates: Vec<_> = listing.tables.iter().map(|(_, table)| table.candidate()).collect();
        let wanted = Wanted { shape: self.shape, id: &identity.id };
        let number = wanted.choose(&candidates, preference)?;
        Some(listing.tables.swap_remove(number))
    }

    /// Stores a measured table in this engine's own file, in place of one that was there.
    ///
    /// # Errors
    /// No folder, a file in its place that is no table of this engine's for this start, or what the system says.
    pub fn store(&self, found: &Calibrated, identity: &Identity) -> Result<PathBuf> {
        let (path, existing) = self.place(identity).map_err(anyhow::Error::msg)?;
        store(&path, &StoredTable::new(found, self.shape, identity), existing)
            .map_err(|cause| anyhow::anyhow!("{}: {cause}", path.display()))?;
        Ok(path)
    }
}

fn unused(cause: &anyhow::Error) -> Line {
    Line::warning(&format!("stored tables are not used: {cause:#}"))
}

fn store(path: &Path, table: &StoredTable, existing: Existing) -> std::io::Result<()> {
    write_whole(path, table.to_json()?.as_bytes(), existing)
}

fn not_written(path: &Path, cause: &std::io::Error) -> String {
    format!("stored table {} not written: {cause}", path.display())
}
