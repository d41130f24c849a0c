//! The forms in which the scripts show trees.

use std::fmt::Debug;

/// A tree on one line, without what is absent.
pub fn compact(tree: &impl Debug) -> String {
    let mut line = String::new();
    for part in format!("{tree:#?}").lines() {
        let part = part.trim();
        let value = part.split_once(": ").map(|(_, value)| value);
        if matches!(value, Some("None," | "[]," | "false,")) {
            continue;
        }
        if line.ends_with([' ', '(', '[']) || line.is_empty() || part.starts_with([')', ']']) {
            line.push_str(part);
        } else {
            line.push(' ');
            line.push_str(part);
        }
        // The comma behind the last field of all.
        for close in [")", "]", "}"] {
            for (from, to) in
                [(format!(",{close}"), close.to_owned()), (format!(", {close}"), format!(" {close}"))]
            {
                if line.ends_with(&from) || line.ends_with(&format!("{from},")) {
                    let comma = if line.ends_with(&format!("{from},")) { "," } else { "" };
                    let kept = line.len() - from.len() - comma.len();
                    line.truncate(kept);
                    line.push_str(&to);
                    line.push_str(comma);
                }
            }
        }
    }
    line
}
