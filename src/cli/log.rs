//! The server's log on standard error. A log that cannot be written never stops the service.
//!
//! Log lines go into a bounded queue, and one thread writes them. If a write fails, its line is
//! lost. If writes block, the queue fills up, and further lines are lost. Lost lines are counted,
//! and the log reports their number as soon as it can be written again.

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    collections::VecDeque,
    fs::File,
    io::{self, IsTerminal as _, Write},
    os::fd::AsFd as _,
    panic::PanicHookInfo,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tracing::error;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::{client::Outcome, failure::Failure, log_ids::WithIds};

/// The largest number of bytes in the queue.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// How long the process waits for the last lines when it ends.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// The log of this process.
static LOG: OnceLock<Arc<Queue>> = OnceLock::new();

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// The options of the log.
#[derive(Args, Clone, Debug)]
pub(super) struct LogArgs {
    /// The format of log lines
    #[arg(long, env = "TOMBOLA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// The log filter, e.g. debug or info,tombola=debug
    #[arg(
        long,
        env = "TOMBOLA_LOG",
        value_name = "FILTER",
        default_value = "info,tokio_cron_scheduler=warn"
    )]
    log: String,
}

impl LogArgs {
    /// Starts the log that they describe.
    pub(super) fn start(&self) -> Outcome {
        start(&self.log, self.log_format).map_err(Failure::usage)
    }
}

/// Starts the log on standard error. It also logs panics of threads.
fn start(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!("--log: `{filter}` is no filter ({error}): write one like info")
    })?;
    let queue = Arc::new(Queue::default());
    // A separate handle: a blocked write must not hold the standard library's lock.
    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(stderr) => {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name("tombola-log".into())
                .spawn(move || queue.write_to(&mut File::from(stderr), format))
                .map_err(|error| format!("the log's thread cannot be started: {error}"))?;
        }
        Err(_) => queue.lock().is_closed = true, // standard error is closed
    }
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(Lines(Arc::clone(&queue)));
    match format {
        LogFormat::Text => {
            let is_ansi = io::stderr().is_terminal();
            let log = log.with_ansi(is_ansi);
            log.map_event_format(|text| WithIds::text(text, is_ansi))
                .init();
        }
        LogFormat::Json => log.json().map_event_format(WithIds::json).init(),
    }
    LOG.set(queue).ok(); // `init` has refused a second log already
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Writes a line without a timestamp, after the log lines before it.
pub(super) fn note(text: &str) {
    match LOG.get() {
        Some(queue) => queue.push(format!("{text}\n").into_bytes()),
        None => super::output::note(text),
    }
}

/// Waits until all lines are written, for [`FLUSH_TIME_MAX`] at most.
pub(super) fn flush() {
    if let Some(queue) = LOG.get() {
        queue.flush(FLUSH_TIME_MAX);
    }
}

/// Says why the process ends at once: in the log if there is one.
pub(super) fn say_last(words: &str) {
    match LOG.get() {
        Some(_) => error!("{words}"),
        None => super::output::note(words),
    }
    flush();
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    error!(
        thread = thread.name().unwrap_or_default(),
        location = location.unwrap_or_default(),
        backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| display(backtrace)),
        "a thread panicked: {}",
        panic_text(panic.payload())
    );
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

/// The queue of lines to write.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// A line is being written.
    is_writing: bool,
    /// No thread writes: lines are dropped.
    is_closed: bool,
    /// Lines that were dropped since the log last reported them.
    lost: u64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        if state.bytes + line.len() > QUEUE_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.changed.notify_all();
    }

    fn flush(&self, time_max: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.lines.is_empty();
        // The result says whether the wait timed out, which changes nothing.
        drop(
            self.changed
                .wait_timeout_while(self.lock(), time_max, is_busy),
        );
    }

    /// Writes lines for ever. A line that cannot be written is counted and dropped.
    fn write_to(&self, sink: &mut impl Write, format: LogFormat) {
        loop {
            let (line, lost) = self.next();
            let mut text = lost_line(lost, format);
            text.extend_from_slice(&line);
            let written = sink.write_all(&text).and_then(|()| sink.flush());
            self.written(written.is_ok(), lost);
        }
    }

    /// The next line, and the number of lines that were lost before it.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return (line, state.lost);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn written(&self, is_written: bool, lost_reported: u64) {
        let mut state = self.lock();
        state.is_writing = false;
        if is_written {
            state.lost -= lost_reported;
        } else {
            state.lost += 1;
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// The line that reports how many lines were lost; empty if none was. It begins with a line end,
/// since the line before may be written only in part.
fn lost_line(lost: u64, format: LogFormat) -> Vec<u8> {
    if lost == 0 {
        return Vec::new();
    }
    let (now, module) = (Timestamp::now(), module_path!());
    let text = match format {
        LogFormat::Text => {
            format!("\n{now}  WARN {module}: {lost} log lines could not be written lost={lost}\n")
        }
        LogFormat::Json => {
            let line = serde_json::json!({
                "timestamp": now.to_string(),
                "level": "WARN",
                "fields": {"message": "log lines could not be written", "lost": lost},
                "target": module,
            });
            format!("\n{line}\n")
        }
    };
    text.into_bytes()
}

/// A writer for `tracing`.
struct Lines(Arc<Queue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            queue: &self.0,
            text: Vec::new(),
        }
    }
}

/// One line, which is queued when it is dropped.
struct Line<'a> {
    queue: &'a Queue,
    text: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.queue.push(std::mem::take(&mut self.text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A sink that asks the test what to do with each write.
    struct Asking {
        texts: Sender<String>,
        answers: Receiver<io::Result<()>>,
    }

    impl Write for Asking {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.texts.send(String::from_utf8_lossy(text).into()).ok();
            self.answers
                .recv()
                .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
                .map(|()| text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written_by_a_thread(
        format: LogFormat,
    ) -> (Arc<Queue>, Receiver<String>, Sender<io::Result<()>>) {
        let (queue, (texts, said), (answer, answers)) =
            (Arc::new(Queue::default()), channel(), channel());
        let writer = Arc::clone(&queue);
        std::thread::spawn(move || writer.write_to(&mut Asking { texts, answers }, format));
        (queue, said, answer)
    }

    #[test]
    fn lines_that_were_lost_are_counted_once_the_sink_works_again() {
        let (queue, said, answer) = written_by_a_thread(LogFormat::Text);
        let full = || Err(io::ErrorKind::StorageFull.into());
        for (line, outcome) in [("one\n", full()), ("two\n", full()), ("three\n", Ok(()))] {
            queue.push(line.into());
            let text = said.recv().unwrap();
            assert!(text.ends_with(line), "{text}");
            if line == "three\n" {
                assert!(text.contains("2 log lines could not be written"), "{text}");
            }
            answer.send(outcome).unwrap();
        }
        queue.push("four\n".into());
        assert_eq!(said.recv().unwrap(), "four\n");
    }

    #[test]
    fn a_sink_that_blocks_delays_nobody_and_later_gets_the_number_of_lost_lines() {
        let (queue, said, answer) = written_by_a_thread(LogFormat::Json);
        let line = vec![b'x'; QUEUE_BYTES_MAX / 4];
        queue.push(line.clone());
        said.recv().unwrap(); // it is being written, and stays so
        for _ in 0..10 {
            queue.push(line.clone());
        }
        queue.flush(Duration::ZERO);
        answer.send(Ok(())).unwrap();
        let text = said.recv().unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!(line["fields"]["lost"], 6, "{line}");
    }
}
