//! The page: the question and its answer first, then why, what it costs, and every figure.
//!
//! Invariant: sentences say how a protocol works; whether it held is said by figures alone, so
//! that a run with a broken engine gives a page that says so.

use super::csv::{Table, escaped, titled};
use super::evidence::Evidence;
use super::tables::Tables;
use super::{html, plot, svg};
use crate::fault::FaultModel;

/// What each disk does at a crash, by the name of its model.
const DISKS: [(&str, &str); 6] = [
    ("process-kill", "the process dies; all that was written stays"),
    ("ordered", "power cut: a beginning of all writes stays"),
    ("reorder", "power cut: any pages of them stay"),
    ("torn", "power cut: any sectors of them stay"),
    ("zeros", "any sectors, in a file of full length"),
    ("power", "all of these, and lengths that lag"),
];

/// What each protocol does, and why that holds or does not.
const PROTOCOLS: [(&str, &str); 3] = [
    (
        "guide",
        "flushes the data together with the first copy of its footer. A disk that writes in any \
         order may bring the footer and not the data: then the footer stands over nothing.",
    ),
    (
        "barrier",
        "flushes the data before it writes the footer, so no footer ever stands over data that \
         never came. Every commit waits for that flush too, one more than under Verified.",
    ),
    (
        "verified",
        "flushes once. The footer carries a checksum of all that it covers: one that stands over \
         missing data does not count, and the commit before it does.",
    ),
];

/// The page.
pub(crate) fn render(tables: &Tables) -> String {
    let mut body = answer(tables);
    if let Some(evidence) = &tables.evidence {
        body.push_str(&why(tables, evidence));
        body.push_str(&protocols_compared(evidence));
    }
    body.push_str(&costs(tables));
    body.push_str(&recovery(&tables.recovery));
    body.push_str(&everything(tables));
    body.push_str(&method(tables));
    html::page("Does a commit survive the crash?", &body)
}

fn answer(tables: &Tables) -> String {
    let run = |column| tables.run.figure(1, column);
    let mut text = format!(
        "<header>\n<p class=\"over\">rereduce crash report</p>\n\
         <h1>The database said “committed”. Then the power failed. Is the commit still there?</h1>\n\
         <p class=\"lead\">Three commit protocols, on disks from kind to cruel. {} workloads were \
         crashed at every call to the disk; {} images of what a crash can leave were opened and \
         compared with a model of what must be there.</p>\n</header>\n",
        run("workloads"),
        run("images"),
    );
    text.push_str(&matrix(&tables.matrix));
    text.push_str("<ul class=\"protocols\">\n");
    for (name, sentence) in PROTOCOLS {
        let Some(row) =
            tables.protocols.rows().find(|row| tables.protocols.field(*row, "protocol") == name)
        else {
            continue;
        };
        let figure = |column| tables.protocols.figure(row, column);
        text.push_str(&format!(
            "<li class=\"{name}\"><b>{}</b> {sentence} <span class=\"tally\">Images that miss an \
             acknowledged commit, on all disks: <span class=\"of\">{} of {}.</span></span></li>\n",
            titled(name),
            figure("lost_acknowledged"),
            figure("images"),
        ));
    }
    text.push_str("</ul>\n");
    text
}

/// The table of the first screen; on a narrow one each protocol is a card.
fn matrix(matrix: &Table) -> String {
    let shown = &DISKS[..5];
    let mut text = "<table class=\"matrix\">\n<caption>Which protocol survives which disk: images \
                    that lose something, of all that were opened</caption>\n<thead><tr>\
                    <th scope=\"col\">protocol</th>"
        .to_owned();
    for (model, about) in shown {
        text.push_str(&format!("<th scope=\"col\">{model}<small>{about}</small></th>"));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for (protocol, _) in PROTOCOLS {
        text.push_str(&format!("<tr><th scope=\"row\">{}</th>", titled(protocol)));
        for (model, _) in shown {
            let Some(row) = find(matrix, protocol, model) else { continue };
            let loses = matrix.field(row, "found") == "loses";
            let (class, sign) = if loses { ("loses", "✗") } else { ("survives", "✓") };
            let unlike = matrix.field(row, "expected") != matrix.field(row, "found");
            let warning = if unlike { "<em>the specification says otherwise</em>" } else { "" };
            text.push_str(&format!(
                "<td class=\"{class}\" data-label=\"{model}\"><b>{sign} {}</b>\
                 <small>{} of {}</small>{warning}</td>",
                matrix.text(row, "found"),
                matrix.figure(row, "lost"),
                matrix.figure(row, "images"),
            ));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n");
    text
}

fn find(table: &Table, protocol: &str, model: &str) -> Option<usize> {
    let same = |row: &usize| {
        table.field(*row, "protocol") == protocol && table.field(*row, "model") == model
    };
    table.rows().find(same)
}

/// The counter-example that the measurement found.
fn why(tables: &Tables, evidence: &Evidence) -> String {
    let crash = &evidence.crash;
    let Some(row) = crash.rows().find(|row| crash.field(*row, "replay") != "-") else {
        return String::new();
    };
    let protocol = crash.field(row, "protocol");
    let picture = html::figure(
        "",
        &svg::file(&evidence.blocks, protocol, "vouches for"),
        "The file after the crash, from its first block down; blocks without a gap share a page of \
         the disk. The footer of the newest commit came, and data that it vouches for did not.",
    );
    let story = format!(
        "<div>\n<ol class=\"story\">\n<li>The shortest script that loses what was acknowledged:{}</li>\n\
         <li>Commits acknowledged before the crash: {}. The next one was waiting for a flush when \
         the power failed, on a disk of kind {}.</li>\n\
         <li>The disk had written the footer and not the data before it. Opening finds commit {}, \
         believes it, and with it everything before is out of sight. Reading answers:{}</li>\n\
         <li>See it again:{}</li>\n</ol>\n",
        html::code(&crash.text(row, "script")),
        crash.figure(row, "acknowledged"),
        crash.text(row, "model"),
        crash.figure(row, "commit_found"),
        html::code(&crash.text(row, "answer")),
        html::code(&crash.command(row, "replay")),
    );
    let shortest = &tables.shortest;
    let shorter = shortest.rows().next().map_or_else(String::new, |row| {
        html::details(
            "An even shorter script, in which only the first commit is at stake",
            &[
                html::code(&shortest.text(row, "script")),
                html::code(&shortest.text(row, "found")),
                html::code(&shortest.command(row, "replay")),
            ]
            .concat(),
        )
    });
    let body = format!("<div class=\"split\">\n{picture}{story}{shorter}</div>\n</div>\n");
    let disk = match crash.field(row, "model") {
        "reorder" => "that reorders writes".to_owned(),
        model => format!("of kind {model}"),
    };
    let title = format!("Why {} loses data on a disk {disk}", titled(protocol));
    html::section("why", &title, &body)
}

/// The same script under every protocol: what it calls, and what the crash leaves.
fn protocols_compared(evidence: &Evidence) -> String {
    let crash = &evidence.crash;
    let mut body = html::paragraph(
        "The same script, the same disk. First what the last commit asks of the disk under each \
         protocol; whatever stands between two flushes, the disk may write in any order.",
    );
    for row in crash.rows() {
        body.push_str(&calls(&evidence.calls, crash.field(row, "protocol")));
    }
    body.push_str(&html::paragraph(
        "Then every image that a power cut can leave of that commit. A footer that stands over data \
         that never came is harmless only if opening can tell.",
    ));
    let rows: Vec<Vec<String>> = crash
        .rows()
        .map(|row| {
            let mut cells = vec![titled(crash.field(row, "protocol"))];
            for column in ["images", "bare_footers", "bare_footers_survived"] {
                cells.push(crash.figure(row, column));
            }
            cells
        })
        .collect();
    let heads = ["protocol", "images", "footer over missing data", "of these, survive"];
    body.push_str(&html::table(
        "Images of a crash in the last commit of the script",
        &heads,
        &rows,
    ));
    body.push_str("<div class=\"files\">\n");
    for row in crash.rows() {
        body.push_str(&after_crash(evidence, row));
    }
    body.push_str("</div>\n");
    html::section("compared", "The same crash under each protocol", &body)
}

/// The calls of one commit, from left to right.
fn calls(calls: &Table, protocol: &str) -> String {
    let own = calls.rows().filter(|row| calls.field(*row, "protocol") == protocol);
    let mut text = format!(
        "<ol class=\"calls\" aria-label=\"calls of {protocol}\"><li class=\"who\">{}</li>",
        titled(protocol)
    );
    for row in own {
        if calls.field(row, "call") == "flush" {
            text.push_str("<li class=\"flush\">flush, and wait</li>");
        } else {
            text.push_str(&format!(
                "<li class=\"append\">{} <small>{} bytes</small></li>",
                calls.text(row, "holds"),
                calls.figure(row, "bytes")
            ));
        }
    }
    text.push_str("<li class=\"done\">acknowledged</li></ol>\n");
    text
}

fn after_crash(evidence: &Evidence, row: usize) -> String {
    let crash = &evidence.crash;
    let protocol = crash.field(row, "protocol");
    let loses = crash.field(row, "outcome") == "loses";
    let skipped = match crash.field(row, "footers_skipped") {
        "" => "It passes over no footer.".to_owned(),
        _ => format!("It passes over: {}.", crash.text(row, "footers_skipped")),
    };
    let (sign, class) = if loses { ("✗", "loses") } else { ("✓", "survives") };
    let caption = format!(
        "<b class=\"{class}\">{sign} {}</b> Opening finds commit {}. {skipped} It answers \
         <code>{}</code>",
        crash.text(row, "outcome"),
        crash.figure(row, "commit_found"),
        crash.text(row, "answer"),
    );
    let (claim, aside) = match protocol {
        "verified" => (
            "covers by checksum",
            "The checksum in the footer does not match what lies before it, so the footer does not \
             count. What had been acknowledged stands.",
        ),
        "barrier" => (
            "written after",
            "The data was flushed before the disk saw a footer. What it can still lose is a copy of \
             the footer, and either copy will do.",
        ),
        _ => (
            "vouches for",
            "The footer claims that nothing needs checking, and is believed. Its data is not there.",
        ),
    };
    // What is told beside the picture holds for engines that are right.
    let broken = loses && protocol != "guide";
    let aside = if broken { "Not what this protocol is meant to do." } else { aside };
    let picture = svg::file(&evidence.blocks, protocol, claim);
    format!(
        "<figure>\n<h3>{}</h3>\n<p class=\"aside\">{aside}</p>\n{picture}\
         <figcaption>{caption}</figcaption>\n</figure>\n",
        titled(protocol)
    )
}

fn costs(tables: &Tables) -> String {
    let costs = &tables.costs;
    let rows: Vec<usize> = costs.rows().collect();
    let mut body = html::paragraph(
        "A commit waits for every flush between its beginning and its acknowledgement; on most disks \
         that wait is most of its time. Counted in the calls that the simulated disk saw, over all \
         workloads; the first commit after a crash also rewrites and flushes what it builds on. No \
         times are shown: they would say more about the machine than about the protocol.",
    );
    body.push_str("<div class=\"pair\">\n");
    for (column, title) in [
        ("flushes_per_commit", "Flushes that a commit waits for, mean"),
        ("bytes_per_commit", "Bytes appended by a commit, mean"),
    ] {
        body.push_str(&html::figure(title, &plot::bars(costs, &rows, column, title), ""));
    }
    body.push_str("</div>\n");
    let columns = [
        "commits",
        "flushes_least",
        "flushes_per_commit",
        "flushes_most",
        "run_flushes_per_commit",
        "appends_per_commit",
        "bytes_per_commit",
    ];
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let name = titled(costs.field(*row, "protocol"));
            let mut cells = vec![format!("{name}, {}", costs.field(*row, "engine"))];
            cells.extend(columns.iter().map(|column| costs.figure(*row, column)));
            cells
        })
        .collect();
    let heads = [
        "protocol, engine",
        "commits",
        "flushes waited for, least",
        "mean",
        "most",
        "all flushes of a run, per commit",
        "appends, mean",
        "bytes, mean",
    ];
    body.push_str(&html::table("What a commit costs", &heads, &lines));
    html::section("costs", "What it costs", &body)
}

fn recovery(recovery: &Table) -> String {
    let mut body = html::paragraph(
        "Opening reads from the end of the file backwards and stops at the first footer that \
         counts. How much that is depends on the last commit, not on the length of the file. \
         <b>Sealed</b>: closed cleanly. <b>Unsealed</b>: killed after a commit. <b>Torn</b>: cut \
         off in the middle of a footer, so that the commit before it stands.",
    );
    body.push_str("<div class=\"pair\">\n");
    for (column, with_whole) in [("reads", false), ("bytes_read", true)] {
        let caption = "Verified; file length to the right, both axes logarithmic.";
        let plotted = plot::growth(recovery, "verified", column, with_whole);
        body.push_str(&html::figure("", &plotted, caption));
    }
    body.push_str("</div>\n");
    for (protocol, _) in PROTOCOLS {
        let rows: Vec<Vec<String>> = recovery
            .rows()
            .filter(|row| recovery.field(*row, "protocol") == protocol)
            .map(|row| {
                let columns =
                    ["file_bytes", "reads", "bytes_read", "commit_found", "commit_newest"];
                let mut cells = vec![recovery.text(row, "ending")];
                cells.extend(columns.iter().map(|column| recovery.figure(row, column)));
                cells
            })
            .collect();
        let heads = ["ending", "file bytes", "reads", "bytes read", "commit found", "newest"];
        let summary = format!("{}: every opening", titled(protocol));
        body.push_str(&html::details(&summary, &html::table("Opening a store", &heads, &rows)));
    }
    html::section("recovery", "Recovery does not grow with the file", &body)
}

fn everything(tables: &Tables) -> String {
    let matrix = &tables.matrix;
    let columns =
        ["images", "distinct", "survivors", "older", "detected", "undetected", "lost_acknowledged"];
    let rows: Vec<Vec<String>> = matrix
        .rows()
        .map(|row| {
            let name = titled(matrix.field(row, "protocol"));
            let mut cells = vec![format!("{name} on {}", matrix.field(row, "model"))];
            let found = matrix.field(row, "found");
            let sign = if found == "loses" { "✗" } else { "✓" };
            cells.push(format!(
                "<span class=\"{found}\">{sign} {}</span>",
                matrix.text(row, "found")
            ));
            cells.extend(columns.iter().map(|column| matrix.figure(row, column)));
            cells
        })
        .collect();
    let heads = [
        "protocol on disk",
        "found",
        "images",
        "distinct",
        "survivors",
        "older commit",
        "detected damage",
        "undetected damage",
        "miss an acknowledged commit",
    ];
    let mut body = html::table("Every image, by what the engine answered", &heads, &rows);
    body.push_str(&html::paragraph(
        "<b>Survivors</b> open at the last acknowledged commit or at the one in flight. <b>Older \
         commit</b>: opens, at a commit before that. <b>Detected damage</b>: opening, reading or \
         checking returns an error. <b>Undetected damage</b>: answers of no commit, and no error. \
         The last column counts images, of whatever kind, that do not show a commit which had been \
         acknowledged; the others lost only a commit in flight, or the first ever.",
    ));
    for (protocol, _) in PROTOCOLS {
        let summary =
            format!("{}: images that lose something, by workload and disk", titled(protocol));
        body.push_str(&html::details(&summary, &by_workload(&tables.cells, protocol)));
    }
    html::section("everything", "Every cell", &body)
}

fn by_workload(cells: &Table, protocol: &str) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let own = |model: FaultModel| {
        cells.rows().filter(move |row| {
            cells.field(*row, "protocol") == protocol && cells.field(*row, "model") == model.name
        })
    };
    for row in own(FaultModel::PROCESS_KILL) {
        let name = format!("{} {}", cells.field(row, "engine"), cells.field(row, "workload"));
        rows.push(vec![escaped(&name)]);
    }
    for model in FaultModel::ALL {
        for (line, row) in rows.iter_mut().zip(own(model)) {
            line.push(format!("{} of {}", cells.figure(row, "lost"), cells.figure(row, "images")));
        }
    }
    let mut heads = vec!["workload"];
    heads.extend(FaultModel::ALL.map(|model| model.name));
    html::table("Images that lose something, of all", &heads, &rows)
}

fn method(tables: &Tables) -> String {
    let run = |column| tables.run.figure(1, column);
    let mut body = html::paragraph(&format!(
        "This is the {} form, with seed {}: {} cells (protocol, disk, workload), {} crash points, {} \
         images, {} of them different; at a crash point up to {} sets of surviving blocks were \
         tried. The same command with the same seed writes the same files, byte for byte.",
        tables.run.text(1, "form"),
        run("seed"),
        run("cells"),
        run("points"),
        run("images"),
        run("distinct"),
        run("sets_max"),
    ));
    body.push_str(&html::code("cargo oracle report --out DIR"));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (model, about) in DISKS {
        rows.push(vec![model.to_owned(), about.to_owned()]);
    }
    body.push_str(&html::table(
        "The disks",
        &["disk", "what a crash leaves of what was not flushed"],
        &rows,
    ));
    let links: Vec<String> =
        tables.all().map(|table| format!("<a href=\"{0}\">{0}</a>", table.name)).collect();
    body.push_str(&html::paragraph(&format!(
        "Every figure on this page is a field of a file beside it: {}.",
        links.join(", ")
    )));
    html::section("method", "How it was measured", &body)
}
