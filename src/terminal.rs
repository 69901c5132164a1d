//! Standard output, for what a command has to say.

use std::io::{self, ErrorKind, Write};

/// Writes what a command has to say to standard output. A reader that has gone (`| head`) wants no
/// more, which is no error.
///
/// # Errors
/// When the output cannot be written for another reason, for example a full disk.
pub fn print(text: &str) -> io::Result<()> {
    write_out(&mut io::stdout().lock(), text)
}

/// The same, to any writer.
///
/// # Errors
/// Those of the writer, but for a reader that has gone.
pub fn write_out(out: &mut dyn Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
