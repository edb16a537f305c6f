//! A hand-written HTTP/2 client, which can do what no library does: send nothing, not read, or
//! cancel at once.

use std::{
    collections::HashSet,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use super::PATIENCE;

/// Frame types (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// The connection's window at first, and the most bytes of a frame (RFC 9113, section 6.5.2).
const WINDOW_BYTES: usize = 65_535;
const FRAME_BYTES: usize = 16_384;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A frame from the server.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether it is the last frame of a call.
    pub fn ends(&self, stream: u32) -> bool {
        let is_last = self.flags & END_STREAM != 0 && matches!(self.kind, DATA | HEADERS);
        self.stream == stream && is_last
    }
}

/// A connection after the HTTP/2 preface.
pub struct Raw {
    stream: TcpStream,
    next_call: u32,
    /// How many bytes of messages the server takes now.
    window: usize,
    /// The calls that it has answered.
    answered: HashSet<u32>,
}

impl Raw {
    /// Connects, and sends the preface and settings that allow large responses.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut raw = Self {
            stream,
            next_call: 1,
            window: WINDOW_BYTES,
            answered: HashSet::new(),
        };
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut window = vec![0, 4]; // SETTINGS_INITIAL_WINDOW_SIZE
        window.extend(0x7fff_0000_u32.to_be_bytes());
        hello.extend(frame(SETTINGS, 0, 0, &window));
        raw.send(&hello);
        raw
    }

    /// Sends bytes, as far as the server accepts them.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).ok();
    }

    /// Begins a call without its message, so that the call stays open.
    pub fn begin_call(&mut self, path: &str) -> u32 {
        let call = self.next_call();
        self.send(&head(call, path));
        call
    }

    /// Sends the empty message of a call that was begun.
    pub fn end_call(&mut self, call: u32) {
        self.send(&frame(DATA, END_STREAM, call, &[0; 5]));
    }

    /// Begins a call with a message of `bytes` bytes, of which all but the last one are sent, as
    /// the server takes them. Its settings must be in force: see [`Self::ping`].
    pub fn begin_message(&mut self, path: &str, bytes: u32) -> u32 {
        let call = self.begin_call(path);
        let mut contents = vec![0];
        contents.extend(bytes.to_be_bytes());
        contents.resize(4 + bytes as usize, 0);
        for part in contents.chunks(FRAME_BYTES) {
            while self.window < part.len() {
                let frame = self.frame().expect("the server takes no more");
                self.answer(&frame);
            }
            self.window -= part.len();
            self.send(&frame(DATA, 0, call, part));
        }
        call
    }

    /// Whether a call has been answered, as far as was read.
    pub fn is_answered(&self, call: u32) -> bool {
        self.answered.contains(&call)
    }

    /// Reads until a call is answered.
    pub fn wait_for(&mut self, call: u32) {
        while !self.is_answered(call) {
            let frame = self.frame().expect("the connection goes on");
            let is_reset = frame.kind == RST_STREAM && frame.stream == call;
            assert!(!is_reset, "the call is not answered: {frame:?}");
            self.answer(&frame);
        }
    }

    /// Makes a call with an empty message.
    pub fn call(&mut self, path: &str) -> u32 {
        let call = self.next_call();
        let mut frames = head(call, path);
        frames.extend(frame(DATA, END_STREAM, call, &[0; 5]));
        self.send(&frames);
        call
    }

    /// Begins calls and cancels each one at once, all in one write.
    pub fn call_and_cancel(&mut self, path: &str, calls: usize) {
        let mut frames = Vec::new();
        for _ in 0..calls {
            let call = self.next_call();
            frames.extend(head(call, path));
            frames.extend(frame(RST_STREAM, 0, call, &CANCEL));
        }
        self.send(&frames);
    }

    /// Waits until the server has read all that was sent.
    pub fn ping(&mut self) {
        self.send(&frame(PING, 0, 0, &[7; 8]));
        while let Some(frame) = self.frame() {
            if frame.kind == PING && frame.flags == ACK {
                return;
            }
            self.answer(&frame);
        }
        panic!("the server has closed the connection");
    }

    /// Answers pings that have arrived, without waiting, so that the server sees a live client.
    pub fn answer_pings(&mut self) {
        while self.has_arrived() {
            let Some(frame) = self.frame() else { return };
            self.answer(&frame);
        }
    }

    /// Whether there is something to read, which may be the end.
    fn has_arrived(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let arrived = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !matches!(arrived, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Answers a frame if it is a ping of the server's, or settings, which are in force from then
    /// on; says whether it is a ping.
    fn answer(&mut self, asked: &Frame) -> bool {
        match asked.kind {
            PING | SETTINGS if asked.flags == ACK => return false,
            PING => self.send(&frame(PING, ACK, 0, &asked.payload)),
            SETTINGS => self.send(&frame(SETTINGS, ACK, 0, &[])),
            _ => {}
        }
        asked.kind == PING
    }

    /// Whether the server has let the connection in: it answers with its settings.
    pub fn is_alive(&mut self) -> bool {
        self.frame().is_some_and(|frame| frame.kind == SETTINGS)
    }

    /// Reads until the server closes the connection. It answers pings, so that the server sees a
    /// live client, but never extends the flow-control window: most responses cannot be sent.
    pub fn live_without_reading(&mut self) {
        const PINGS_MAX: usize = 4; // one every 30 s
        let mut pings = 0;
        while let Some(asked) = self.frame() {
            if self.answer(&asked) {
                pings += 1;
                assert!(
                    pings <= PINGS_MAX,
                    "the server keeps a client that does not read"
                );
            }
        }
    }

    /// The next frame; `None` once the server has closed the connection.
    pub fn frame(&mut self) -> Option<Frame> {
        let head = self.read::<9>()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        closed(self.stream.read_exact(&mut payload))?;
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        };
        if let (WINDOW_UPDATE, 0, [a, b, c, d]) = (frame.kind, frame.stream, &frame.payload[..]) {
            self.window += u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        }
        if frame.ends(frame.stream) {
            self.answered.insert(frame.stream);
        }
        Some(frame)
    }

    /// All frames until the server closes the connection.
    pub fn frames(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.frame()).collect()
    }

    fn read<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        closed(self.stream.read_exact(&mut bytes))?;
        Some(bytes)
    }

    fn next_call(&mut self) -> u32 {
        let call = self.next_call;
        self.next_call += 2;
        call
    }
}

/// `None` if the server has closed the connection, in whatever way.
fn closed(read: std::io::Result<()>) -> Option<()> {
    match read {
        Ok(()) => Some(()),
        Err(error) => {
            let kind = error.kind();
            let is_closed = matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
            assert!(is_closed, "the server neither answers nor closes: {error}");
            None
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The header frame of a gRPC call.
fn head(call: u32, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ] {
        // A literal without indexing (RFC 7541, section 6.2.2), shorter than 127 bytes.
        block.extend([0, u8::try_from(name.len()).unwrap()]);
        block.extend(name.bytes());
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value.bytes());
    }
    frame(HEADERS, END_HEADERS, call, &block)
}
