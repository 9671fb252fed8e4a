//! The report as one HTML page that needs nothing else: the same pieces as text has them, marked up.
//! maud escapes what is put in; what a terminal would act on was made visible before that.

use super::look::Look;
use super::text::{self, Kind, Piece, Way};
use maud::{DOCTYPE, PreEscaped, html};
use tracer_core::report::{Agreement, Flow, Severity, Summary};

/// How pieces of text are laid out for a page: no colours of a terminal, no width.
const fn plain(look: Look) -> Look {
    Look {
        colour: false,
        width: None,
        ..look
    }
}

const STYLE: &str = include_str!("style.css");

/// The page up to the first flow.
#[must_use]
pub fn head(version: &str, host: &str) -> String {
    let title = format!(
        "srctrace {} · {}",
        super::escape(version),
        super::escape(host)
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // Nothing is fetched, nothing runs.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
        }
    };
    let page = page.into_string();
    // The rest follows as it comes; `tail` closes it.
    let open = page.strip_suffix("</html>").unwrap_or(&page);
    let heading = html! { h1 { (title) } };
    format!("{open}<body>\n{}\n", heading.into_string())
}

/// One flow.
#[must_use]
pub fn flow(flow: &Flow, look: Look) -> String {
    block(None, flow, look)
}

/// One way that flows took: how many, and one of them.
#[must_use]
pub fn way(way: &Way<'_>, look: Look) -> String {
    let many = text::many(way, plain(look));
    block(many.as_deref(), way.exemplar, look)
}

fn block(many: Option<&str>, flow: &Flow, look: Look) -> String {
    let pieces = text::pieces(flow, plain(look));
    let article = html! {
        article {
            @if let Some(many) = many {
                p.many { (many) }
            }
            @for piece in &pieces {
                (element(piece))
            }
        }
    };
    format!("{}\n", article.into_string())
}

fn element(piece: &Piece) -> maud::Markup {
    let text = piece.text.trim_end_matches('\n');
    html! {
        @match piece.kind {
            Kind::Heading => { h2 { (text) } }
            Kind::Last => { p.last { (text.trim_start()) } }
            kind => { div class=(class(kind)) { (text) } }
        }
    }
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Heading | Kind::Last => "",
        Kind::Hop => "hop",
        Kind::Rewrite => "rewrite",
        Kind::Answer => "rewrite answer",
        Kind::Drop => "drop",
        Kind::Finding(Severity::Info) => "finding info",
        Kind::Finding(Severity::Warning) => "finding warning",
        Kind::Finding(Severity::Error) => "finding error",
    }
}

/// What follows the last flow.
#[must_use]
pub fn tail(
    summary: &Summary,
    ways: Option<&[Way<'_>]>,
    agreements: &[Agreement],
    look: Look,
) -> String {
    let look = plain(look);
    let when = format!(
        "{} · kernel {} · from {} for {:.1} s",
        super::escape(&summary.host),
        super::escape(&summary.kernel),
        super::escape(&summary.started),
        summary.duration_s
    );
    let end = html! {
        section.summary {
            @if let Some(ways) = ways {
                h2 { "Ways that flows took" }
                div.lines { (text::ways(ways, look).trim_end()) }
            }
            @if !agreements.is_empty() {
                h2 { "Contract" }
                div.lines { (text::agreements(agreements, look).trim_end()) }
            }
            h2 { "Summary" }
            div.lines { (text::summary(summary, look).trim_end()) }
            p.when { (when) }
        }
    };
    format!("{}\n</body></html>\n", end.into_string())
}

#[cfg(test)]
mod tests;
