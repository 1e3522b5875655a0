//! `tokenfare bench device`: speed of the device's operations beside the speed at which it reads memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokenfare_cpu::{Buf, Cpu};
use tokenfare_device::Device;
use tokenfare_device::bench::{Figures, Op, Options, Quiet, Report, Sizes, Yardstick, measure, median};

use super::tables::{header, row};
use super::target::{check_output, write_json};
use crate::cli::DeviceKind;
use crate::output::print;
use crate::{engine, setup};

/// Two threads that read less than this times what one reads share a core.
const TWO_CORES: f64 = 1.7;

/// Readings of the check for a shared core.
const READINGS: usize = 5;

/// Times that an operation is measured while two threads share a core, at most.
const ATTEMPTS: usize = 3;

/// Rounds for each pair of a quiet moment, at most.
const ROUNDS: usize = 4;

/// Paces at the start, to find the fastest.
const PACES: usize = 100;

/// Arguments of `tokenfare bench device`.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// Operations [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    ops: Vec<OpName>,
    /// Row counts
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,512")]
    rows: Vec<usize>,
    /// Numbers of threads, each measured apart [default: the CPUs this process may use]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Pairs of a measurement and a reading of plain memory
    #[arg(long, value_name = "N", default_value = "7")]
    pairs: usize,
    /// Count pairs of all moments; else those beside other work on the same cores are measured again, a few times at
    /// most
    #[arg(long)]
    any_moment: bool,
    /// Memory of the weights that linear layers rotate over, and of plain readings, in MiB
    #[arg(long, value_name = "MIB", default_value = "1024")]
    memory_mib: u64,
    /// Least time of each half of a pair, in milliseconds
    #[arg(long, value_name = "MS", default_value = "40")]
    least_ms: u64,
    /// Also write everything as JSON
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// An operation's name on the command line.
#[derive(Debug, Clone, Copy)]
struct OpName(Op);

impl ValueEnum for OpName {
    fn value_variants<'a>() -> &'a [Self] {
        const NAMES: [OpName; Op::ALL.len()] = {
            let mut names = [OpName(Op::Moe); Op::ALL.len()];
            let mut i = 0;
            while i < names.len() {
                names[i] = OpName(Op::ALL[i]);
                i += 1;
            }
            names
        };
        &NAMES
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

impl DeviceArgs {
    fn check(&self) -> Result<()> {
        let range = |flag: &str, values: &[usize], most: usize| match values
            .iter()
            .find(|value| !(1..=most).contains(*value))
        {
            Some(value) => bail!("{flag} {value}: expected 1 to {most}"),
            None => Ok(()),
        };
        range("--rows", &self.rows, 4096)?;
        range("--threads", &self.threads, setup::MOST_THREADS)?;
        range("--pairs", &[self.pairs], 1000)?;
        if !(1..=1 << 20).contains(&self.memory_mib) {
            bail!("--memory-mib {}: expected 1 to {}", self.memory_mib, 1 << 20);
        }
        if self.least_ms > 60_000 {
            bail!("--least-ms {}: expected up to 60000", self.least_ms);
        }
        Ok(())
    }

    fn options(&self) -> Options {
        Options {
            rows: self.rows.clone(),
            pairs: self.pairs,
            rounds: (!self.any_moment).then_some(self.pairs * ROUNDS),
            least: Duration::from_millis(self.least_ms),
            weights: self.memory_mib << 20,
            sizes: Sizes::RELEASE,
        }
    }
}

/// A device beside memory that its read ceiling is measured on.
struct Rig {
    cpu: Cpu,
    memory: Buf<f32>,
}

impl Rig {
    fn new(mut cpu: Cpu, bytes: u64) -> Result<Self> {
        let len = usize::try_from(bytes / 4).context("--memory-mib")?;
        let memory = cpu.alloc::<f32>(len)?;
        // Memory that was never written is one page of zeros.
        let ones = vec![1.0; len.min(1 << 20)];
        for at in (0..len).step_by(ones.len()) {
            cpu.write(&memory, at, &ones[..ones.len().min(len - at)])?;
        }
        Ok(Self { cpu, memory })
    }

    /// What two threads read over what one reads; `None` with one thread.
    fn scaling(&mut self) -> Result<Option<f64>> {
        if self.cpu.threads() < 2 {
            return Ok(None);
        }
        let mut ratios = Vec::with_capacity(READINGS);
        for _ in 0..READINGS {
            let one = self.cpu.read_ceiling(&self.memory, 1)?;
            ratios.push(self.cpu.read_ceiling(&self.memory, 2)? / one);
        }
        Ok(Some(median(ratios)))
    }

    /// Looks for the fastest pace.
    fn paces(&mut self, quiet: &mut Quiet) -> Result<()> {
        for _ in 0..PACES {
            quiet.note(self.cpu.pace()?);
        }
        Ok(())
    }

    /// Measures `op`, again while two threads share a core; gives the scaling of the last attempt too.
    fn measure(&mut self, op: Op, options: &Options, quiet: &mut Quiet) -> Result<(Report, Option<f64>)> {
        let mut attempt = 1;
        loop {
            let before = self.scaling()?;
            let mut yardstick = Memory(self.memory.clone());
            let report = measure(&mut self.cpu, op, options, quiet, &mut yardstick)?;
            let after = self.scaling()?;
            let scaling = before.zip(after).map(|(before, after)| before.min(after));
            if attempt == ATTEMPTS || scaling.is_none_or(|s| s >= TWO_CORES) {
                return Ok((report, scaling));
            }
            attempt += 1;
        }
    }
}

/// Plain memory that all threads read, and additions in their registers.
struct Memory(Buf<f32>);

impl Yardstick<Cpu> for Memory {
    fn read(&mut self, cpu: &mut Cpu) -> tokenfare_device::Result<f64> {
        let threads = cpu.threads();
        cpu.read_ceiling(&self.0, threads)
    }

    fn pace(&mut self, cpu: &mut Cpu) -> tokenfare_device::Result<f64> {
        cpu.pace()
    }
}

/// Runs the measurement.
pub fn device(args: DeviceArgs) -> Result<()> {
    args.check()?;
    check_output(args.output.as_deref())?;
    let settings = engine::settings(DeviceKind::Cpu, None)?;
    let ops = if args.ops.is_empty() { Op::ALL.to_vec() } else { args.ops.iter().map(|o| o.0).collect() };
    let threads = if args.threads.is_empty() { vec![0] } else { args.threads.clone() };
    let max_rows = args.rows.iter().copied().max().unwrap_or(1);
    let mut runs = Vec::new();
    for threads in threads {
        let cpu = setup::cpu(&settings, threads, max_rows)?;
        let mut rig = Rig::new(cpu, args.memory_mib << 20)?;
        let name = rig.cpu.name();
        // A clock that all cores share is slower the more of them work.
        let mut quiet = Quiet::default();
        rig.paces(&mut quiet)?;
        let mut reports = Vec::new();
        for &op in &ops {
            let (report, scaling) = rig.measure(op, &args.options(), &mut quiet)?;
            print(&table(&name, &report, scaling, (!args.any_moment).then_some(&quiet)))?;
            reports.push(value(&report, scaling));
        }
        runs.push(json!({
            "device": name,
            "threads": rig.cpu.threads(),
            "fastest_pace_s": quiet.fastest(),
            "measured": reports,
        }));
    }
    if let Some(file) = &args.output {
        let report = json!({
            "pairs": args.pairs,
            "any_moment": args.any_moment,
            "memory_mib": args.memory_mib,
            "runs": runs,
        });
        write_json(file, &report)?;
    }
    Ok(())
}

fn table(device: &str, report: &Report, scaling: Option<f64>, quiet: Option<&Quiet>) -> String {
    let mut text = format!("\n{}, {}, {device}", report.op.name(), report.shape);
    match scaling {
        Some(s) if s < TWO_CORES => {
            text += &format!("; two threads read {s:.2} times what one reads: two CPUs share a core");
        }
        Some(s) => text += &format!("; two threads read {s:.2} times what one reads"),
        None => {}
    }
    if let Some(quiet) = quiet {
        text += &format!("; quiet: within {:.0} % of ", (Quiet::NEAR - 1.0) * 100.0);
        text += &format!("{:.3} ns for an addition of 16 values in registers", quiet.fastest() * 1e9);
    }
    let head =
        ["rows", "ms", "GB/s", "read GB/s", "share of read", "GFLOP/s", "quiet pairs", "share, all pairs"];
    text += &format!("\n\n{}", header(head.map(str::to_owned).to_vec()));
    for speed in &report.speeds {
        let s = speed.figures();
        text += &row([
            speed.rows.to_string(),
            format!("{:.3}", s.seconds * 1e3),
            format!("{:.2}", s.bytes_per_s / 1e9),
            format!("{:.2}", s.ceiling / 1e9),
            format!("{:.2}", s.share),
            format!("{:.0}", s.flops_per_s / 1e9),
            match quiet {
                Some(_) => format!("{} of {}", speed.quiet.map_or(0, |q| q.pairs), speed.all.pairs),
                None => "-".to_owned(),
            },
            format!("{:.2}", speed.all.share),
        ]);
    }
    text
}

fn figures(f: &Figures) -> Value {
    json!({
        "pairs": f.pairs,
        "seconds": f.seconds,
        "bytes_per_s": f.bytes_per_s,
        "read_bytes_per_s": f.ceiling,
        "share_of_read": f.share,
        "flops_per_s": f.flops_per_s,
    })
}

fn value(report: &Report, scaling: Option<f64>) -> Value {
    let speeds = report
        .speeds
        .iter()
        .map(|s| json!({ "rows": s.rows, "quiet": s.quiet.as_ref().map(figures), "all": figures(&s.all) }));
    json!({
        "op": report.op.name(),
        "shape": report.shape,
        "two_threads_over_one": scaling,
        "shared_core": scaling.map(|s| s < TWO_CORES),
        "speeds": speeds.collect::<Vec<_>>(),
    })
}
