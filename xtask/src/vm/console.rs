//! What a machine's console says about how its run went.

/// Kernel messages that mean the machine is lost, wherever in a line they stand.
const FATAL: [&str; 4] = [
    "Kernel panic - not syncing",
    "BUG: unable to handle",
    "Oops: ",
    "Unable to mount root fs",
];

/// Lines shown from the console when a run did not end properly.
const TAIL: usize = 30;

/// How a boot ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The script ended with this exit status.
    Ended(i32),
    /// It did not; the reason, and the console's last lines.
    Broken {
        /// In words.
        reason: String,
        /// The last lines.
        tail: Vec<String>,
    },
}

/// Why there are no more lines although the run has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The emulator ended.
    SwitchedOff,
    /// The time for the whole run is over.
    Late,
    /// Nothing was printed for too long.
    Silent,
}

impl Cut {
    fn reason(self) -> &'static str {
        match self {
            Self::SwitchedOff => "the machine ended before the run did",
            Self::Late => "the run did not end in time",
            Self::Silent => "the run hangs: it has printed nothing for too long",
        }
    }
}

/// A reader of console lines.
#[derive(Debug)]
pub(crate) struct Console {
    begin: String,
    end: String,
    running: bool,
    status: Option<i32>,
    cut: Option<Cut>,
    fatal: Option<String>,
    tail: Vec<String>,
}

impl Console {
    /// A reader for a run marked by `nonce`.
    pub(crate) fn new(nonce: &str) -> Self {
        Self {
            begin: format!("{nonce} begin"),
            end: format!("{nonce} end "),
            running: false,
            status: None,
            cut: None,
            fatal: None,
            tail: Vec::new(),
        }
    }

    /// Takes the next line; returns it if it is output of the run.
    pub(crate) fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if self.tail.len() == TAIL {
            self.tail.remove(0);
        }
        self.tail.push(line.to_owned());
        if FATAL.iter().any(|text| line.contains(text)) && is_from_kernel(line) {
            self.fatal.get_or_insert_with(|| line.to_owned());
        }
        if line == self.begin {
            self.running = true;
            return None;
        }
        if let Some(status) = line.strip_prefix(&self.end).filter(|_| self.running) {
            self.status = status.parse().ok();
            return None;
        }
        Some(line).filter(|_| self.running)
    }

    /// The exit status, once the run has ended.
    pub(crate) fn status(&self) -> Option<i32> {
        self.status
    }

    /// Says that no more lines will come.
    pub(crate) fn cut(&mut self, cut: Cut) {
        self.cut = Some(cut);
    }

    /// Whether [`Console::cut`] was called, and with what.
    pub(crate) fn cut_short(&self) -> Option<Cut> {
        self.cut
    }

    /// How it ended.
    pub(crate) fn verdict(self) -> Verdict {
        let reason = match (self.status, self.fatal) {
            (Some(status), None) => return Verdict::Ended(status),
            (_, Some(fatal)) => format!("the kernel failed: {fatal}"),
            (None, None) => self.cut.unwrap_or(Cut::SwitchedOff).reason().to_owned(),
        };
        Verdict::Broken {
            reason,
            tail: self.tail,
        }
    }
}

/// Kernel messages begin with a time stamp, also where they interrupt another line.
fn is_from_kernel(line: &str) -> bool {
    let stamp = |rest: &str| {
        let rest = rest.trim_start();
        let number = rest.split(']').next().unwrap_or_default();
        rest.contains(']')
            && number
                .split_once('.')
                .is_some_and(|(s, us)| is_number(s) && is_number(us))
    };
    line.match_indices('[')
        .any(|(at, _)| stamp(&line[at + 1..]))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> (Vec<String>, Console) {
        let mut console = Console::new("n1");
        let output = lines
            .iter()
            .filter_map(|line| console.line(line))
            .map(str::to_owned)
            .collect();
        (output, console)
    }

    #[test]
    fn output_is_what_stands_between_the_marks() {
        let (output, console) = read(&[
            "SeaBIOS",
            "n1 end 9",
            "n1 begin",
            "hello",
            "",
            "n1 end 3",
            "[ 2.0] reboot: down",
        ]);
        assert_eq!(output, ["hello", "", "[ 2.0] reboot: down"]);
        assert_eq!(console.verdict(), Verdict::Ended(3));
    }

    #[test]
    fn a_panic_is_a_failure_even_after_the_end() {
        let panic = "[    3.123456] Kernel panic - not syncing: Attempted to kill init!";
        let (_, console) = read(&["n1 begin", panic]);
        let expected = Verdict::Broken {
            reason: format!("the kernel failed: {panic}"),
            tail: vec!["n1 begin".to_owned(), panic.to_owned()],
        };
        assert_eq!(console.verdict(), expected);
        let (_, console) = read(&["n1 begin", "n1 end 0", panic]);
        assert!(matches!(console.verdict(), Verdict::Broken { .. }));
    }

    #[test]
    fn a_program_that_only_talks_of_a_panic_is_none() {
        let (_, console) = read(&[
            "n1 begin",
            "grep: Kernel panic - not syncing [a.b] x",
            "n1 end 0",
        ]);
        assert_eq!(console.verdict(), Verdict::Ended(0));
    }

    #[test]
    fn a_run_without_end_says_why_and_shows_the_tail() {
        let lines = (0..40).map(|n| n.to_string()).collect::<Vec<_>>();
        let lines = lines.iter().map(String::as_str).collect::<Vec<_>>();
        for (cut, why) in [
            (Cut::Late, "the run did not end in time"),
            (
                Cut::Silent,
                "the run hangs: it has printed nothing for too long",
            ),
            (Cut::SwitchedOff, "the machine ended before the run did"),
        ] {
            let (_, mut console) = read(&lines);
            console.cut(cut);
            let Verdict::Broken { reason, tail } = console.verdict() else {
                panic!("ended")
            };
            assert_eq!(
                (reason.as_str(), tail.len(), tail[0].as_str()),
                (why, TAIL, "10")
            );
        }
    }
}
