//! What a run of srctrace reported.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Everything that came out of one run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Standard output, line by line.
    pub lines: Vec<String>,
    /// Standard error.
    pub stderr: String,
    /// The exit status, `None` when a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Report {
    /// All lines as JSON objects, each compared with the schema.
    ///
    /// # Errors
    /// When a line is not JSON, or not as the schema says.
    pub fn objects(&self) -> Result<Vec<Value>> {
        self.lines
            .iter()
            .map(|line| {
                let object = serde_json::from_str(line)
                    .with_context(|| format!("not a line of JSON: {line}"))?;
                super::schema::check(&object)?;
                Ok(object)
            })
            .collect()
    }

    /// The reported flows, ordered by their tuple so that two runs compare.
    ///
    /// # Errors
    /// When the output is not JSON.
    pub fn flows(&self) -> Result<Vec<Value>> {
        let mut flows: Vec<Value> = self
            .objects()?
            .into_iter()
            .filter(|object| object["type"] == "flow")
            .collect();
        flows.sort_by_key(|flow| {
            let tuple = &flow["flow"];
            let text = |value: &Value| value.to_string();
            let ports = (tuple["sport"].as_u64(), tuple["dport"].as_u64());
            (
                text(&tuple["proto"]),
                text(&tuple["src"]),
                ports,
                text(&tuple["dst"]),
                in_order(&text(&flow["origin"]["netns_name"])),
            )
        });
        Ok(flows)
    }

    /// The only flow reported.
    ///
    /// # Errors
    /// When there is none, or more.
    pub fn only_flow(&self) -> Result<Value> {
        let mut flows = self.flows()?;
        if flows.len() != 1 {
            bail!(
                "{} flows instead of one: {:#?}\nstderr: {}",
                flows.len(),
                self.lines,
                self.stderr
            );
        }
        Ok(flows.remove(0))
    }

    /// The flow with this source and destination address.
    ///
    /// # Errors
    /// When there is not exactly one.
    pub fn flow(&self, src: &str, dst: &str) -> Result<Value> {
        let mut found: Vec<Value> = self
            .flows()?
            .into_iter()
            .filter(|flow| flow["flow"]["src"] == src && flow["flow"]["dst"] == dst)
            .collect();
        if found.len() != 1 {
            bail!(
                "{} flows {src} to {dst} instead of one: {:#?}",
                found.len(),
                self.lines
            );
        }
        Ok(found.remove(0))
    }

    /// The summary, which must be the last line and the only one.
    ///
    /// # Errors
    /// When it is not.
    pub fn summary(&self) -> Result<Value> {
        let objects = self.objects()?;
        let summaries = objects
            .iter()
            .filter(|object| object["type"] == "summary")
            .count();
        match objects.last() {
            Some(last) if last["type"] == "summary" && summaries == 1 => Ok(last.clone()),
            _ => bail!(
                "{summaries} summaries, and the last line must be one: {:#?}\n{}",
                self.lines,
                self.stderr
            ),
        }
    }
}

/// The text, so written that numbers in it compare as numbers: labs are numbered, and the hundredth comes after the
/// ninety-ninth.
fn in_order(text: &str) -> String {
    let mut written = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let rest = &part[digits.len()..];
        if digits.is_empty() {
            written.push_str(rest);
        } else {
            written.push_str(&format!("{digits:0>20}{rest}"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn the_hundredth_lab_comes_after_the_ninety_ninth() {
        assert!(in_order("stlab-7-99-ours-pod") < in_order("stlab-7-100-theirs-pod"));
        assert!(in_order("stlab-7-1-a-node") < in_order("stlab-7-1-a-pod"));
        assert!(in_order("stlab-7-1-a-pod2") < in_order("stlab-7-1-a-pod10"));
    }
}
