//! Nodes of plans as EXPLAIN shows them, in all its formats.

use std::{fmt::Write, time::Duration};

use crate::executor::Run;

/// A format of EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    /// Lines for readers.
    Text,
    /// An XML document.
    Xml,
    /// A JSON array.
    Json,
    /// A YAML list.
    Yaml,
}

/// A value of a structured format.
#[derive(Clone, Debug)]
pub enum NodeValue {
    /// Text.
    Text(String),
    /// A number or a Boolean, as it is printed.
    Plain(String),
    /// Several texts.
    List(Vec<String>),
    /// Named values.
    Group(Vec<(&'static str, NodeValue)>),
    /// Groups, each of this name.
    Groups(&'static str, Vec<NodeValue>),
}

/// The estimate of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeEstimate {
    /// The cost until its first row.
    pub startup: f64,
    /// The cost of all rows.
    pub total: f64,
    /// Number of rows.
    pub rows: f64,
    /// The width of a row in bytes.
    pub width: f64,
}

impl NodeEstimate {
    /// Returns the part of the text format behind the title.
    fn text(&self) -> String {
        let NodeEstimate { startup, total, rows, width } = self;
        format!("  (cost={startup:.2}..{total:.2} rows={rows:.0} width={width:.0})")
    }

    fn values(&self) -> Vec<(&'static str, NodeValue)> {
        let costs = [("Startup Cost", self.startup), ("Total Cost", self.total)];
        let costs = costs.map(|(name, cost)| (name, NodeValue::Plain(format!("{cost:.2}"))));
        let sizes = [("Plan Rows", self.rows), ("Plan Width", self.width)];
        let sizes = sizes.map(|(name, size)| (name, NodeValue::Plain(format!("{size:.0}"))));
        costs.into_iter().chain(sizes).collect()
    }
}

/// A node of a plan.
#[derive(Debug, Default)]
pub struct Node {
    /// Its line in the text format.
    pub title: String,
    /// Its `Node Type` in the structured formats.
    pub kind: &'static str,
    /// How it works, such as `Strategy`: in the structured formats only.
    pub manner: Vec<(&'static str, NodeValue)>,
    /// Its objects, such as `Relation Name`: in the structured formats only.
    pub objects: Vec<(&'static str, NodeValue)>,
    /// Its estimate, if estimates are shown.
    pub estimate: Option<NodeEstimate>,
    /// Its run, if it is measured.
    pub run: Option<Run>,
    /// The columns that it computes, where it does: with VERBOSE only.
    pub output: Option<Vec<String>>,
    /// Conditions, keys and the like.
    pub details: Vec<(&'static str, NodeValue)>,
    /// Details that the text format prints behind the nodes beneath.
    pub closing: Vec<(&'static str, NodeValue)>,
    /// The nodes beneath.
    pub children: Vec<Child>,
}

/// A node beneath another one.
#[derive(Debug)]
pub struct Child {
    /// PostgreSQL's `Parent Relationship`.
    pub relationship: &'static str,
    /// Its purpose, if it is no input.
    pub name: Option<String>,
    /// The condition by which its rows are looked up.
    pub condition: Option<String>,
    /// The node.
    pub node: Node,
}

impl Child {
    /// An input.
    pub fn input(relationship: &'static str, node: Node) -> Child {
        Child { relationship, name: None, condition: None, node }
    }
}

impl Node {
    /// The lines of the text format.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.put_lines(0, &mut lines);
        lines
    }

    /// The node without what is shown with VERBOSE only.
    pub fn brief(mut self) -> Node {
        self.output = None;
        for child in &mut self.children {
            child.node = std::mem::take(&mut child.node).brief();
        }
        self
    }

    /// Prints the node; the top one at indent 0, those below behind an arrow.
    fn put_lines(&self, indent: usize, lines: &mut Vec<String>) {
        let estimate = self.estimate.as_ref().map(NodeEstimate::text).unwrap_or_default();
        let run = self.run.as_ref().map(Run::text).unwrap_or_default();
        match indent {
            0 => lines.push(format!("{}{estimate}{run}", self.title)),
            _ => lines.push(format!("{:1$}->  {2}{estimate}{run}", "", indent - 4, self.title)),
        }
        let detail =
            |(label, value): &(&str, NodeValue)| format!("{:1$}{label}: {2}", "", indent + 2, value.text());
        let output = self.output.iter().map(|output| ("Output", NodeValue::List(output.clone())));
        lines.extend(output.map(|output| detail(&output)));
        // The text format does not tell of none.
        let is_none =
            |(name, value): &(&str, NodeValue)| name.starts_with("Rows Removed") && value.text() == "0";
        lines.extend(self.details.iter().filter(|item| !is_none(item)).map(detail));
        for child in &self.children {
            let Some(name) = &child.name else {
                child.node.put_lines(indent + 6, lines);
                continue;
            };
            lines.push(format!("{:1$}{name}", "", indent + 2));
            if let Some(condition) = &child.condition {
                lines.push(format!("{:1$}Hash Cond: {condition}", "", indent + 4));
            }
            child.node.put_lines(indent + 8, lines);
        }
        lines.extend(self.closing.iter().map(detail));
    }

    /// Tells behind a condition how many rows it has removed, if the node was measured.
    pub fn removed_by(&mut self, condition: &str, name: &'static str) {
        let at = self.details.iter().rposition(|(label, _)| *label == condition);
        if let (Some(at), Some(run)) = (at, self.run) {
            let removed = run.removed as f64 / run.loops.max(1) as f64;
            self.details.insert(at + 1, (name, NodeValue::Plain(format!("{removed:.0}"))));
        }
    }

    /// The group of the structured formats.
    pub fn group(self) -> NodeValue {
        self.group_beneath(Vec::new())
    }

    fn group_beneath(self, relation: Vec<(&'static str, NodeValue)>) -> NodeValue {
        let mut group = vec![("Node Type", NodeValue::Text(self.kind.to_owned()))];
        group.extend(self.manner);
        group.extend(relation);
        // Nodes run one after another, in the thread of their session.
        group.extend([("Parallel Aware", NodeValue::from(false)), ("Async Capable", NodeValue::from(false))]);
        group.extend(self.objects);
        group.extend(self.estimate.iter().flat_map(NodeEstimate::values));
        group.extend(self.run.iter().flat_map(Run::values));
        group.extend(self.output.map(|output| ("Output", NodeValue::List(output))));
        group.extend(self.details);
        group.extend(self.closing);
        if !self.children.is_empty() {
            let plans = self.children.into_iter().map(Child::group);
            group.push(("Plans", NodeValue::Groups("Plan", plans.collect())));
        }
        NodeValue::Group(group)
    }
}

impl Child {
    fn group(self) -> NodeValue {
        let mut relation = vec![("Parent Relationship", NodeValue::Text(self.relationship.to_owned()))];
        relation.extend(self.name.map(|name| ("Subplan Name", NodeValue::Text(name))));
        let mut node = self.node;
        if let Some(condition) = self.condition {
            node.details.insert(0, ("Hash Cond", NodeValue::Text(condition)));
        }
        node.group_beneath(relation)
    }
}

/// A time in milliseconds, as it is shown.
pub fn millis(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

impl Run {
    /// The startup time, the whole time and the rows of a loop, as they are shown.
    fn of_a_loop(&self) -> [String; 3] {
        let loops = self.loops.max(1) as f64;
        let time = |time: Duration| millis(time.div_f64(loops));
        [time(self.startup), time(self.total), format!("{:.0}", self.rows as f64 / loops)]
    }

    /// Returns the part of the text format behind the title.
    fn text(&self) -> String {
        let [startup, total, rows] = self.of_a_loop();
        let time = if self.is_timed { format!("time={startup}..{total} ") } else { String::new() };
        match self.loops {
            0 => " (never executed)".to_owned(),
            loops => format!(" (actual {time}rows={rows} loops={loops})"),
        }
    }

    fn values(&self) -> Vec<(&'static str, NodeValue)> {
        let [startup, total, rows] = self.of_a_loop();
        let times = [("Actual Startup Time", startup), ("Actual Total Time", total)];
        let times = times.into_iter().filter(|_| self.is_timed);
        let counts = [("Actual Rows", rows), ("Actual Loops", self.loops.to_string())];
        times.chain(counts).map(|(name, value)| (name, NodeValue::Plain(value))).collect()
    }
}

impl From<bool> for NodeValue {
    fn from(value: bool) -> NodeValue {
        NodeValue::Plain(value.to_string())
    }
}

impl NodeValue {
    fn text(&self) -> String {
        match self {
            NodeValue::Text(text) | NodeValue::Plain(text) => text.clone(),
            NodeValue::List(texts) => texts.join(", "),
            NodeValue::Group(_) | NodeValue::Groups(..) => String::new(),
        }
    }

    /// The document of a query whose values these are.
    pub fn document(&self, format: ExplainFormat) -> String {
        let mut out = String::new();
        match format {
            ExplainFormat::Text => out = self.text(),
            ExplainFormat::Json => NodeValue::put_json_array(&[self], 0, &mut out),
            ExplainFormat::Yaml => {
                out.push_str("- ");
                self.put_yaml(2, &mut out);
            }
            ExplainFormat::Xml => {
                out.push_str("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n");
                self.put_xml("Query", 2, &mut out);
                out.push_str("</explain>");
            }
        }
        out
    }

    /// The document of a statement of this kind that has no plan, or of none.
    pub fn document_without_plan(kind: Option<&str>, format: ExplainFormat) -> String {
        match (format, kind) {
            (ExplainFormat::Text, _) | (ExplainFormat::Yaml, None) => String::new(),
            (ExplainFormat::Json, kind) => {
                format!("[{}\n]", kind.map(|kind| format!("\n  \"{kind}\"")).unwrap_or_default())
            }
            (ExplainFormat::Yaml, Some(kind)) => format!("- \"{kind}\""),
            (ExplainFormat::Xml, kind) => {
                let tag = kind.map(|kind| format!("  <{} />\n", kind.replace(' ', "-")));
                let tag = tag.unwrap_or_default();
                format!("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n{tag}</explain>")
            }
        }
    }

    fn put_json(&self, indent: usize, out: &mut String) {
        match self {
            NodeValue::Text(text) => put_json_string(text, out),
            NodeValue::Plain(text) => out.push_str(text),
            NodeValue::List(texts) => {
                out.push('[');
                for (i, text) in texts.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { ", " });
                    put_json_string(text, out);
                }
                out.push(']');
            }
            NodeValue::Group(values) => {
                out.push('{');
                for (i, (name, value)) in values.iter().enumerate() {
                    out.push_str(if i == 0 { "\n" } else { ",\n" });
                    put_indent(indent + 2, out);
                    put_json_string(name, out);
                    out.push_str(": ");
                    value.put_json(indent + 2, out);
                }
                out.push('\n');
                put_indent(indent, out);
                out.push('}');
            }
            NodeValue::Groups(_, groups) => {
                NodeValue::put_json_array(&groups.iter().collect::<Vec<_>>(), indent, out);
            }
        }
    }

    fn put_json_array(values: &[&NodeValue], indent: usize, out: &mut String) {
        out.push('[');
        for (i, value) in values.iter().enumerate() {
            out.push_str(if i == 0 { "\n" } else { ",\n" });
            put_indent(indent + 2, out);
            value.put_json(indent + 2, out);
        }
        out.push('\n');
        put_indent(indent, out);
        out.push(']');
    }

    /// Prints the value behind its name or the mark of an item; values beneath stand at `indent`.
    fn put_yaml(&self, indent: usize, out: &mut String) {
        match self {
            NodeValue::Text(text) => put_json_string(text, out),
            NodeValue::Plain(text) => out.push_str(text),
            NodeValue::List(texts) => {
                for text in texts {
                    put_line(indent, out);
                    out.push_str("- ");
                    put_json_string(text, out);
                }
            }
            NodeValue::Group(values) => {
                for (i, (name, value)) in values.iter().enumerate() {
                    if i > 0 {
                        put_line(indent, out);
                    }
                    let _ = write!(out, "{name}: ");
                    if let NodeValue::Group(_) = value {
                        put_line(indent + 2, out);
                    }
                    value.put_yaml(indent + 2, out);
                }
            }
            NodeValue::Groups(_, groups) => {
                for group in groups {
                    put_line(indent, out);
                    out.push_str("- ");
                    group.put_yaml(indent + 2, out);
                }
            }
        }
    }

    fn put_xml(&self, name: &str, indent: usize, out: &mut String) {
        let tag = name.replace(' ', "-");
        put_indent(indent, out);
        let _ = write!(out, "<{tag}>");
        match self {
            NodeValue::Text(text) | NodeValue::Plain(text) => put_xml_text(text, out),
            NodeValue::List(_) | NodeValue::Group(_) | NodeValue::Groups(..) => {
                out.push('\n');
                self.put_xml_parts(indent + 2, out);
                put_indent(indent, out);
            }
        }
        let _ = writeln!(out, "</{tag}>");
    }

    fn put_xml_parts(&self, indent: usize, out: &mut String) {
        match self {
            NodeValue::Text(_) | NodeValue::Plain(_) => {}
            NodeValue::List(texts) => {
                texts.iter().for_each(|text| NodeValue::Text(text.clone()).put_xml("Item", indent, out));
            }
            NodeValue::Group(values) => {
                values.iter().for_each(|(name, value)| value.put_xml(name, indent, out))
            }
            NodeValue::Groups(name, groups) => {
                groups.iter().for_each(|group| group.put_xml(name, indent, out))
            }
        }
    }
}

fn put_indent(indent: usize, out: &mut String) {
    let _ = write!(out, "{:indent$}", "");
}

fn put_line(indent: usize, out: &mut String) {
    out.push('\n');
    put_indent(indent, out);
}

fn put_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn put_xml_text(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#x0d;"),
            c => out.push(c),
        }
    }
}
