//! `tokenfare run`: replies in the terminal.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use tokenfare_lanes::sampling::seed_of;
use tokenfare_lanes::{Channel, Event, Finish, Piece, ReplyStats, Request, Sampling};
use tokenfare_server::{Chat, Dialect, Form, Prompt, ReplyText};

use super::{CostArgs, EngineArgs, SamplingArgs, logs};
use crate::costs::Source;
use crate::dialect::Dsv41Dialect;
use crate::ending::PanicsEnd;
use crate::engine::{self, Engine, LanesPlan};
use crate::lines::LogFormat;
use crate::locate;
use crate::notice::notice;
use crate::output::print;

/// Tokens of a reply where the user sets no bound.
const MAX_TOKENS: usize = 512;

/// Arguments of `tokenfare run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A checkpoint folder, a prompt, or both in this order; without a prompt, chat line by line
    #[arg(value_name = "[MODEL] PROMPT", num_args = 0..=2)]
    words: Vec<OsString>,
    /// Continue the text as it is instead of answering it
    #[arg(long)]
    raw: bool,
    /// Key of the draws [default: from the prompt]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    costs: CostArgs,
}

/// Splits the words into a model folder and a prompt. One word is a model if it is a folder.
fn words(words: &[OsString]) -> Result<(Option<PathBuf>, Option<&str>)> {
    let (model, prompt) = match words {
        [] => (None, None),
        [one] if Path::new(one).is_dir() => (Some(one.into()), None),
        [one] => (None, Some(one)),
        [model, prompt, ..] => (Some(model.into()), Some(prompt)),
    };
    let unicode = |word: &'_ OsString| format!("prompt: expected Unicode, found {word:?}");
    let prompt = prompt.map(|word| word.to_str().with_context(|| unicode(word))).transpose()?;
    Ok((model, prompt))
}

struct Session<'a> {
    args: &'a RunArgs,
    engine: Engine,
    dialect: Dsv41Dialect,
    salt: String,
}

/// What one reply came to.
struct Said {
    content: String,
    reasoning: String,
    stats: ReplyStats,
}

/// A piece of a reply as the terminal shows it.
fn plain(piece: &Piece) -> (Channel, String) {
    // The terminal offers no tools; what the model calls all the same is written out.
    match piece {
        Piece::Text { channel, text } => (*channel, text.clone()),
        Piece::Call(name) => (Channel::Content, format!("\n[call {name}] ")),
        Piece::Arguments(json) => (Channel::Content, json.clone()),
        Piece::CallEnd => (Channel::Content, "\n".to_owned()),
    }
}

/// A line to show before a piece where the channel changes.
fn heading(channel: Channel, last: &mut Option<Channel>) -> &'static str {
    match (last.replace(channel), channel) {
        (None | Some(Channel::Content), Channel::Reasoning) => "[reasoning]\n",
        (Some(Channel::Reasoning), Channel::Content) => "\n[answer]\n",
        _ => "",
    }
}

impl Session<'_> {
    fn request(&self, prompt: Prompt) -> Result<Request> {
        let text = self.dialect.reply(ReplyText { form: prompt.form, ..ReplyText::default() })?;
        let sampling = &self.args.sampling;
        let max_new = sampling.max_tokens.unwrap_or(MAX_TOKENS);
        let seed = self.args.seed.unwrap_or_else(|| seed_of(&prompt.ids, &self.salt));
        let mut request = Request::new(prompt.ids, max_new, text);
        request.sampling = Sampling {
            temperature: sampling.temperature.unwrap_or(0.0),
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: sampling.min_p,
            seed,
            logit_bias: Vec::new(),
        };
        request.stop_tokens = self.dialect.stop_tokens();
        request.marks = prompt.marks;
        Ok(request)
    }

    /// Streams one reply to standard output.
    fn reply(&self, request: Request) -> Result<Said> {
        let handle = self.engine.lanes.handle();
        let mut reply = handle.submit(request.validate(handle.info())?)?;
        let (mut content, mut reasoning, mut last) = (String::new(), String::new(), None);
        while let Some(event) = reply.blocking_next() {
            let (pieces, end) = match event {
                Event::Prefilled { .. } => continue,
                Event::Tokens(tokens) => (tokens.into_iter().flat_map(|t| t.pieces).collect(), None),
                Event::Finished { pieces, reason, stats } => (pieces, Some((reason, *stats))),
            };
            let mut text = String::new();
            for piece in &pieces {
                let (channel, piece) = plain(piece);
                text += heading(channel, &mut last);
                text += &piece;
                match channel {
                    Channel::Content => content.push_str(&piece),
                    Channel::Reasoning => reasoning.push_str(&piece),
                }
            }
            print(&text)?;
            match end {
                None => {}
                Some((Finish::Failed(cause), _)) => bail!("the reply failed: {cause}"),
                Some((_, stats)) => {
                    print("\n")?;
                    return Ok(Said { content, reasoning, stats });
                }
            }
        }
        bail!("the engine stopped before the reply ended")
    }

    fn chat(&self, messages: &[Value]) -> Result<Said> {
        let args = &self.args.sampling;
        let effort = args.reasoning_effort.as_ref().map(|e| json!(e));
        let messages = messages.to_vec();
        let chat = Chat { messages, tools: Vec::new(), schema: None, thinking: args.thinking, effort };
        let prompt = self.dialect.encode_chat(&chat).map_err(|e| anyhow::anyhow!("{}: {e}", e.field))?;
        self.reply(self.request(prompt)?)
    }

    /// Lines of standard input are turns of one conversation.
    fn converse(&self) -> Result<()> {
        let input = std::io::stdin();
        let ask = || {
            if input.is_terminal() {
                // Where nobody sees the mark, nobody misses it.
                let _ = std::io::stderr().write_all(b"> ");
            }
        };
        let mut messages: Vec<Value> = Vec::new();
        ask();
        for line in input.lock().lines() {
            let line = line.context("standard input")?;
            if !line.trim().is_empty() {
                messages.push(json!({"role": "user", "content": line}));
                let said = self.chat(&messages)?;
                notice!("{}", summary(&said.stats));
                let turn = json!({"role": "assistant", "content": said.content, "reasoning_content": said.reasoning});
                messages.push(turn);
            }
            ask();
        }
        Ok(())
    }
}

/// One line about a reply. What cannot be known is left out.
fn summary(stats: &ReplyStats) -> String {
    let mut parts = vec![format!("{} tokens", stats.completion_tokens)];
    let decoded = stats.completion_tokens.saturating_sub(1) as f64;
    if decoded > 0.0 && stats.decode_s > 0.0 {
        parts.push(format!("{:.1} tok/s", decoded / stats.decode_s));
    }
    if stats.rounds > 0 {
        parts.push(format!("{:.2} ms a round", 1e3 * stats.round_s / stats.rounds as f64));
    }
    if stats.drafted > 0 {
        parts.push(format!("{} of {} drafts kept", stats.accepted, stats.drafted));
    }
    parts.push(format!("first token after {:.3} s", stats.queue_s + stats.prefill_s));
    format!("[{}]", parts.join(", "))
}

/// Runs the command.
pub fn run(args: RunArgs) -> Result<()> {
    let (model, prompt) = words(&args.words)?;
    args.sampling.check()?;
    if args.raw && prompt.is_none() {
        bail!("--raw: expected a prompt");
    }
    // One reply is the whole life of the process.
    let _panics_end = PanicsEnd::begin();
    let settings = engine::settings(args.engine.device, args.costs.draft_costs.as_deref())?;
    if settings.logs.round_prof {
        logs::start_profile();
    }
    let dir = locate::model(model.as_deref())?;
    let engine = engine::start(&dir, &args.engine, &settings, LanesPlan::of(1))?;
    // A terminal shows the reply alone, unless the user asked for a table of this machine.
    let told = Some(engine.costs.line()).filter(|_| engine.costs.source != Source::Default);
    engine.costs.lines.iter().chain(&told).for_each(|line| line.print(LogFormat::Text));
    let dialect = Dsv41Dialect::new(engine.tokenizer.clone(), engine.config.eos);
    let session = Session { args: &args, engine, dialect, salt: settings.seed_salt.clone() };
    let said = match prompt {
        None => return session.converse(),
        Some(text) if args.raw => {
            let ids = session.dialect.encode(text)?;
            session.reply(session.request(Prompt { ids, marks: Vec::new(), form: Form::Raw })?)?
        }
        Some(text) => session.chat(&[json!({"role": "user", "content": text})])?,
    };
    notice!("{}", summary(&said.stats));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_prompt_unless_it_is_a_folder() {
        let list = |w: &[&str]| w.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(words(&list(&["What is a GPU?"])).unwrap(), (None, Some("What is a GPU?")));
        assert_eq!(words(&list(&["src"])).unwrap(), (Some("src".into()), None));
        assert_eq!(words(&list(&["src", "hello"])).unwrap(), (Some("src".into()), Some("hello")));
        assert_eq!(words(&[]).unwrap(), (None, None));
    }
}
