//! `srctrace map`: what every destination gets, from rules alone; and against an older map.

use super::doctor;
use super::failure::Failure;
use super::tell::look;
use super::terrain::{ROUNDS, Terrain};
use crate::cli::{MapOptions, OutputFormat, SenderOptions};
use crate::render::{self, text};
use crate::sink::{self, Sink};
use crate::source;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tracer_core::expect::ExitStatus;
use tracer_core::foresee::{Ground, Needs, Sender};
use tracer_core::map::{self, Drawing, Space};
use tracer_core::report::{Line, Map, MapChange, Summary};

/// Kinds of pods that are told, at most.
const KINDS: usize = 8;

pub(super) fn map(options: &MapOptions) -> Result<ExitStatus, Failure> {
    let before = options.diff.as_deref().map(old_map).transpose()?;
    let mut terrain = Terrain::new(&options.senders)?;
    let lines = lines(&mut terrain, &options.senders)?;
    if lines.is_empty() {
        return Err(Failure::Usage(
            "nobody here could send anything: no namespace that was asked about has an address"
                .to_owned(),
        ));
    }
    let summary = Summary {
        host: terrain.inventory.host.clone(),
        ..doctor::summary()
    };
    let look = look(&options.output);
    let json = options.output.format == OutputFormat::Json;
    let mut sink = Sink::stdout();
    let Some((before, host)) = before else {
        if !json {
            sink.write(&text::map(&lines, look))?;
            return Ok(ExitStatus::Done);
        }
        let lines = lines.into_iter().map(|line| Line::Map(Box::new(line)));
        all(&mut sink, lines, summary)?;
        return Ok(ExitStatus::Done);
    };
    let changes: Vec<MapChange> = map::diff(&before, &lines, host == summary.host);
    let status = match changes.is_empty() {
        true => ExitStatus::Done,
        false => ExitStatus::Violated,
    };
    if json {
        let lines = changes
            .into_iter()
            .map(|line| Line::MapChange(Box::new(line)));
        all(&mut sink, lines, summary)?;
    } else {
        sink.write(&text::changes(&map::gathered(&changes), look))?;
    }
    Ok(status)
}

fn all(
    sink: &mut Sink<std::io::Stdout>,
    lines: impl Iterator<Item = Line>,
    summary: Summary,
) -> Result<(), Failure> {
    for line in lines.chain([Line::Summary(Box::new(summary))]) {
        let json = render::json_line(&line).map_err(|e| Failure::Output(e.to_string()))?;
        sink.write(&json)?;
    }
    Ok(())
}

/// A map under way, with the other senders that it stands for.
struct Sheet {
    v4: bool,
    drawing: Drawing,
    sender: Sender,
    others: Vec<Sender>,
}

/// The maps of the senders that are asked about, of both families.
fn lines(terrain: &mut Terrain, options: &SenderOptions) -> Result<Vec<Map>, Failure> {
    let mut doubts = BTreeSet::new();
    if !terrain.is_live() {
        let main = "a recording has the main routing tables only";
        doubts.insert(main.to_owned());
    }
    let mut sheets = Vec::new();
    for v4 in [true, false] {
        for (sender, others) in groups(terrain, options, v4, &mut doubts)? {
            sheets.push(Sheet {
                v4,
                drawing: Drawing::of(sender),
                sender,
                others,
            });
        }
    }
    let all = drawn(terrain, sheets, &mut doubts);
    for doubt in doubts {
        sink::note(&format!(
            "srctrace: the map is not exact: {}\n",
            render::escape(&doubt)
        ));
    }
    Ok(all)
}

/// Draws the maps. The machine is asked for what is missing: first of a destination of each place among the
/// routes, then of every one.
fn drawn(terrain: &mut Terrain, mut sheets: Vec<Sheet>, doubts: &mut BTreeSet<String>) -> Vec<Map> {
    ask(terrain, doubts, |ground, spaces| {
        let each = sheets.iter();
        each.map(|sheet| map::wants(ground, spaces.of(sheet.v4), &sheet.sender))
            .collect()
    });
    let spaces = ask(terrain, doubts, |ground, spaces| {
        let each = sheets.iter_mut();
        each.map(|sheet| sheet.drawing.go_on(ground, spaces.of(sheet.v4)))
            .collect()
    });
    let mut all = Vec::new();
    for Sheet {
        v4,
        drawing,
        others,
        ..
    } in sheets
    {
        let space = spaces.of(v4);
        doubts.extend(space.doubts().iter().cloned());
        let names = others.iter().filter_map(|other| terrain.name(other));
        let names: Vec<String> = names.collect();
        all.extend(drawing.finish(space).lines.into_iter().map(|mut line| {
            line.origin.count += others.len() as u64;
            line.origin.others.clone_from(&names);
            line
        }));
    }
    all
}

/// The destinations of both families.
struct Spaces {
    v4: Space,
    v6: Space,
}

impl Spaces {
    fn of(&self, v4: bool) -> &Space {
        if v4 { &self.v4 } else { &self.v6 }
    }
}

/// Does a piece of work again and again until nothing is missing for it, or nothing more can be had.
fn ask(
    terrain: &mut Terrain,
    doubts: &mut BTreeSet<String>,
    mut work: impl FnMut(&Ground<'_, '_>, &Spaces) -> Vec<Needs>,
) -> Spaces {
    let mut round = 1;
    loop {
        let rules = terrain.indexed_for_many();
        let ground = terrain.ground(&rules);
        let spaces = Spaces {
            v4: Space::of(&ground, true),
            v6: Space::of(&ground, false),
        };
        let mut needs = Needs::default();
        for more in work(&ground, &spaces) {
            needs.absorb(more);
        }
        drop(rules);
        if round == ROUNDS || !terrain.supply_map(needs, doubts) {
            return spaces;
        }
        round += 1;
    }
}

/// The senders; pods that fare alike together.
fn groups(
    terrain: &mut Terrain,
    options: &SenderOptions,
    v4: bool,
    doubts: &mut BTreeSet<String>,
) -> Result<Vec<(Sender, Vec<Sender>)>, Failure> {
    terrain.read_forwarders(options)?;
    let mut senders = terrain.senders(options, v4)?;
    let needs = Needs {
        rules: (senders.iter().map(|sender| sender.netns))
            .chain(terrain.inventory.node)
            .collect(),
        ..Needs::default()
    };
    terrain.supply_map(needs, doubts);
    let rules = terrain.indexed();
    let ground = terrain.ground(&rules);
    senders.retain(|sender| map::is_mapped(&ground, sender));
    let mut groups = map::alike(&ground, &senders);
    let pods =
        |(sender, _): &&(Sender, Vec<Sender>)| sender.kind == tracer_core::report::OriginKind::Pod;
    let left = groups.iter().filter(pods).count().saturating_sub(KINDS);
    if left > 0 {
        let mut told = 0;
        groups.retain(|group| {
            told += usize::from(pods(&group));
            !pods(&group) || told <= KINDS
        });
        sink::note(&format!(
            "srctrace: {left} more kinds of pods are told apart by rules and left out; --pod or --netns names one\n"
        ));
    }
    Ok(groups)
}

/// An older map, and the machine it is of.
fn old_map(file: &Path) -> Result<(Vec<Map>, String), Failure> {
    if source::is_recording(file)? {
        let options = SenderOptions {
            recording: Some(file.to_owned()),
            ..SenderOptions::default()
        };
        let mut terrain = Terrain::new(&options)?;
        let lines = lines(&mut terrain, &options)?;
        return Ok((lines, terrain.inventory.host));
    }
    let name = render::escape(&file.display().to_string()).into_owned();
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("{name}: cannot be read: {error}")))?;
    let (mut maps, mut host) = (Vec::new(), None);
    for (n, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(Line::Map(map)) => maps.push(*map),
            Ok(Line::Summary(summary)) => host = Some(summary.host),
            Ok(_) => {}
            Err(error) => {
                let error = error.to_string();
                let error = render::escape(&error);
                let n = n + 1;
                return Err(Failure::Usage(format!(
                    "{name}, line {n}: not a line of `srctrace map --output json`: {error}"
                )));
            }
        }
    }
    match host {
        Some(host) if !maps.is_empty() => Ok((maps, host)),
        _ => Err(Failure::Usage(format!(
            "{name}: no map: give what `srctrace map --output json` printed, to its end, or a recording"
        ))),
    }
}
