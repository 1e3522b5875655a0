//! `tokenfare serve`: the HTTP server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use tokenfare_lanes::Drafts;
use tokenfare_server::{ApiKeys, Costs, Defaults, Metrics, Server, ServerOptions};
use tokenfare_settings::Settings;
use tokio::net::{TcpSocket, lookup_host};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::access::{self, AccessArgs};
use super::{CostArgs, EngineArgs, ModelArg, SamplingArgs, logs};
use crate::dialect::Dsv41Dialect;
use crate::ending::PanicsEnd;
use crate::engine::{self, Engine, LanesPlan};
use crate::lanes_fit::Parallel;
use crate::lines::{Line, LogFormat};
use crate::locate;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How long a thread without work is kept.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Arguments of `tokenfare serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    model: ModelArg,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value = "8080")]
    port: u16,
    /// The model's name in the API [default: the folder's name]
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Replies decoded at once, 1 to 64; auto takes as many as fit the memory, at most 16
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    parallel: Parallel,
    /// Most requests waiting for a lane; further ones are told to come back
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..))]
    queue: u32,
    #[command(flatten)]
    access: AccessArgs,
    /// How log lines are written
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
    /// Accepted for scripts that pass it; nothing ever looks for updates
    #[arg(long)]
    no_update_check: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    costs: CostArgs,
}

fn defaults(args: &SamplingArgs, salt: &str) -> Result<Defaults> {
    args.check()?;
    Ok(Defaults {
        temperature: args.temperature.unwrap_or(1.0),
        top_p: args.top_p,
        top_k: args.top_k,
        min_p: args.min_p,
        max_tokens: args.max_tokens,
        thinking: args.thinking,
        effort: args.reasoning_effort.as_ref().map(|e| json!(e)),
        seed_salt: salt.to_owned(),
    })
}

/// What a start says of its lanes, costs and depth, in this order.
fn start_lines(engine: &Engine, settings: &Settings) -> Vec<Line> {
    let mut lines: Vec<Line> = engine.fit.line().into_iter().chain(engine.costs.lines.clone()).collect();
    if engine.drafts == Drafts::On {
        let depth = engine::depth(&settings.depth, settings.copies.max_rows);
        let facts = json!({"rule": depth.to_string(), "cap": depth.rule.cap()});
        lines.extend([engine.costs.line(), Line::command(&format!("depth: {depth}")).with(facts)]);
    }
    lines
}

fn name_of(dir: &Path) -> String {
    let folder =
        dir.canonicalize().ok().and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()));
    folder.unwrap_or_else(|| "model".to_owned())
}

/// What the API says of itself.
struct Api {
    name: String,
    defaults: Defaults,
    keys: ApiKeys,
    metrics: Metrics,
    costs: Costs,
    log_format: LogFormat,
}

/// Counts the signals that ask the server to end.
fn signals() -> std::io::Result<watch::Receiver<usize>> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (count, seen) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            count.send_modify(|n| *n += 1);
        }
    });
    Ok(seen)
}

/// Resolves with the `n`-th signal.
async fn nth(n: usize, mut seen: watch::Receiver<usize>) {
    if seen.wait_for(|&count| count >= n).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Takes the port without listening: a taken one is told before a long load, during which clients are refused.
async fn bind(host: &str, port: u16) -> std::io::Result<TcpSocket> {
    let mut refusal = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host((host, port)).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let bound = socket.and_then(|s| {
            s.set_reuseaddr(true)?;
            s.bind(address)?;
            Ok(s)
        });
        match bound {
            Ok(socket) => return Ok(socket),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

async fn listen(socket: TcpSocket, engine: Engine, settings: &Settings, api: Api) -> Result<()> {
    let seen = signals().context("receiving signals")?;
    let listener = socket.listen(BACKLOG).context("listening")?;
    let address = listener.local_addr()?;
    let url = format!("http://{address}");
    let drafts = match engine.drafts {
        Drafts::On => "DSpark + copies",
        Drafts::Off => "off",
    };
    let context = engine.lanes.handle().info().context;
    let Api { name, defaults, keys, metrics, costs, log_format } = api;
    if let Some(warning) = access::warning(address.ip(), &keys) {
        tracing::warn!("{warning}");
    }
    let facts = json!({
        "model": name,
        "url": url,
        "temperature": defaults.temperature,
        "top_p": defaults.top_p,
        "drafts": drafts,
        "context": context,
        "loaded_seconds": engine.loaded_s,
    });
    let line = format!(
        "serving {name} at {url} (sampling: temperature {:?}, top_p {:?}; drafts: {drafts}; context: {context}; loaded in {:.1}s)",
        defaults.temperature, defaults.top_p, engine.loaded_s
    );
    Line::server(line).with(facts).print(log_format);
    let drain = Duration::from_secs(settings.server.drain_s);
    let unless_zero = |seconds: u64| Some(seconds).filter(|&s| s > 0).map(Duration::from_secs);
    let keepalive = unless_zero(settings.server.sse_keepalive_s);
    let stall = unless_zero(settings.server.stall_s);
    let dialect = Dsv41Dialect::new(engine.tokenizer.clone(), engine.config.eos);
    let options = ServerOptions { name, defaults, keys, keepalive, drain, stall, costs, metrics };
    let server = Server::new(engine.lanes.handle(), Box::new(dialect), options);
    server.run(listener, nth(1, seen.clone()), nth(2, seen)).await;
    engine.lanes.shutdown(Duration::ZERO);
    Ok(())
}

fn runtime() -> Result<Runtime> {
    let runtime =
        Builder::new_multi_thread().worker_threads(2).thread_keep_alive(FOREVER).enable_all().build()?;
    // Where the system gives no further thread for long work, this one takes it.
    runtime.block_on(runtime.spawn_blocking(|| ()))?;
    Ok(runtime)
}

/// Runs the command.
pub fn serve(args: ServeArgs) -> Result<()> {
    let settings = engine::settings(args.engine.device, args.costs.draft_costs.as_deref())?;
    let defaults = defaults(&args.sampling, &settings.seed_salt)?;
    let keys = args.access.keys(settings.server.api_key.as_ref())?;
    let starting = PanicsEnd::begin();
    logs::start(args.log_format);
    let dir = locate::model(args.model.model.as_deref())?;
    let runtime = runtime()?;
    let socket = runtime
        .block_on(bind(&args.host, args.port))
        .with_context(|| format!("listening on {}:{}", args.host, args.port))?;
    let metrics = Metrics::default();
    let observer = Some(metrics.observer());
    let plan = LanesPlan { parallel: args.parallel, queue: args.queue as usize, observer };
    let engine = engine::start(&dir, &args.engine, &settings, plan)?;
    start_lines(&engine, &settings).iter().for_each(|line| line.print(args.log_format));
    let name = args.name.unwrap_or_else(|| name_of(&dir));
    drop(starting);
    let costs = Costs {
        source: engine.costs.source.to_string(),
        drafts: engine.drafts,
        prompt_cache_bytes: args.engine.prompt_cache_bytes(),
    };
    let api = Api { name, defaults, keys, metrics, costs, log_format: args.log_format };
    runtime.block_on(listen(socket, engine, &settings, api))
}
