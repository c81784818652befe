//! Reads from a pipe: waits for a writer, but not forever for the first one.

use std::fs::File;
use std::io::{self, Read};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Observer;

/// How long to wait for the first data.
const FIRST_WRITE_SECONDS: u32 = 10;
/// After this time without data, the observer is notified that the input waits.
const NOTICE_SECONDS: i64 = 1;

pub(super) struct Waiting<'a> {
    file: File,
    path: &'a str,
    observer: &'a mut dyn Observer,
    begun: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(file: File, path: &'a str, observer: &'a mut dyn Observer) -> Self {
        Self {
            file,
            path,
            observer,
            begun: false,
        }
    }

    /// Waits until there is data, or the last writer has closed the pipe.
    fn wait(&mut self) -> io::Result<()> {
        let mut waited = 0;
        loop {
            let quiet = Timespec {
                tv_sec: NOTICE_SECONDS,
                tv_nsec: 0,
            };
            let mut watched = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut watched, Some(&quiet))? > 0 {
                return Ok(());
            }
            waited += 1;
            if waited == 1 {
                self.observer.waits(self.path);
            }
            if !self.begun && waited >= FIRST_WRITE_SECONDS {
                let why = format!("nothing was written to this pipe for {FIRST_WRITE_SECONDS} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

impl Read for Waiting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(read) => {
                    self.begun = true;
                    self.observer.read(read as u64);
                    return Ok(read);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
