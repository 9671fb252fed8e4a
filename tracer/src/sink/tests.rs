use super::*;

/// Counts flushes and refuses after some bytes.
#[derive(Default)]
struct Disk {
    written: Vec<u8>,
    flushed_at: Vec<usize>,
    refuses: Option<ErrorKind>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kind) = self.refuses {
            return Err(kind.into());
        }
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed_at.push(self.written.len());
        Ok(())
    }
}

#[test]
fn each_piece_is_flushed() {
    let mut sink = Sink::new(Disk::default());
    sink.write("one\n").unwrap();
    sink.write("two\n").unwrap();
    assert_eq!(sink.out.written, b"one\ntwo\n");
    assert_eq!(sink.out.flushed_at, [4, 8]);
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let result = Sink::new(writer).write("text\n");
    assert!(matches!(result, Err(SinkError::Closed)), "{result:?}");
}

#[test]
fn a_full_disk_is_one() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let result = Sink::new(full).write("text\n");
    let Err(SinkError::Failed(error)) = result else {
        panic!("{result:?}")
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn other_errors_keep_their_cause() {
    let mut sink = Sink::new(Disk {
        refuses: Some(ErrorKind::TimedOut),
        ..Disk::default()
    });
    let error = sink.write("text\n").unwrap_err();
    assert!(matches!(&error, SinkError::Failed(e) if e.kind() == ErrorKind::TimedOut));
    assert!(error.to_string().starts_with("cannot write the output: "));
}

#[test]
fn colours_are_taken_out_where_they_are_not_wanted() {
    assert_eq!(
        fit("\u{1b}[1mbold\u{1b}[0m\n", true),
        "\u{1b}[1mbold\u{1b}[0m\n"
    );
    assert_eq!(fit("\u{1b}[1mbold\u{1b}[0m\n", false), "bold\n");
}
