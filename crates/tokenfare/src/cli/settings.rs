//! `tokenfare settings`: every setting with its value in force.

use anyhow::Result;
use clap::Args;
use tokenfare_settings::Origin;

use super::DeviceKind;
use crate::engine;
use crate::output::print;

/// Arguments of `tokenfare settings`.
#[derive(Debug, Args)]
pub struct SettingsArgs {
    /// Device whose defaults are shown
    #[arg(long, value_enum, default_value = "auto")]
    device: DeviceKind,
}

/// Runs the command.
pub fn settings(args: SettingsArgs) -> Result<()> {
    let settings = engine::settings(args.device, None)?;
    let mut table = format!("{:<28} {:<34} {:<12} default\n", "setting", "value", "from");
    for row in settings.rows() {
        let origin = match row.origin {
            Origin::Environment => "environment",
            Origin::Default => "default",
        };
        let shown = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".to_owned());
        let (name, value, default) = (row.setting.name, shown(&row.value), shown(&row.default));
        table += &format!("{name:<28} {value:<34} {origin:<12} {default}\n");
    }
    print(&table)
}
