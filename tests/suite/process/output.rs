//! The output of a process, line by line, from both of its streams.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::Child,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Instant,
};

use super::PATIENCE;

/// The output of a running process. A thread reads the pipes all the time, so the process never
/// waits for the test.
pub struct Output {
    lines: Receiver<String>,
    all: Arc<Mutex<String>>,
}

impl Output {
    /// Takes the streams of a process that are pipes.
    pub fn of(child: &mut Child) -> Self {
        let (sender, lines) = channel();
        let all = Arc::new(Mutex::new(String::new()));
        if let Some(stdout) = child.stdout.take() {
            drain(stdout, sender.clone(), all.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            drain(stderr, sender, all.clone());
        }
        Self { lines, all }
    }

    /// Waits for the next line for which `found` returns a value; `None` if the process ends first.
    /// A process that says much else does not prolong the wait.
    pub fn wait_for<T>(&self, found: impl Fn(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(found) = found(&line) {
                        return Some(found);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "the process neither ends nor says what is awaited:\n{}",
                        self.text()
                    )
                }
            }
        }
    }

    /// Waits until the process has closed both streams, as it does when it ends.
    pub fn wait_for_end(&self) {
        self.wait_for(|_| None::<()>);
    }

    /// The output so far.
    pub fn text(&self) -> String {
        self.all.lock().unwrap().clone()
    }
}

fn drain(stream: impl Read + Send + 'static, lines: Sender<String>, all: Arc<Mutex<String>>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            {
                let mut all = all.lock().unwrap();
                all.push_str(&line);
                all.push('\n');
            }
            lines.send(line).ok();
        }
    });
}
