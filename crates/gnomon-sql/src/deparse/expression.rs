//! Printing of expressions.

use super::{
    node::{
        Around, Call, Case, Cast, Constant, FramePart, Node, Over, Quantified, SortKey, Subquery,
        SubqueryKind, Subscript, Window,
    },
    writer::DefinitionWriter,
};
use crate::{
    executor::expr::on_deep_stack,
    functions::quote_ident,
    types::{Type, format_type},
};

/// The indent of what is within CASE.
const CASE_INDENT: isize = 4;

/// The type that is printed behind a constant.
#[derive(Clone, Copy, PartialEq)]
pub enum Label {
    /// None.
    Never,
    /// Only where the text alone would be of another type.
    Needed,
    Always,
}

impl<'q> DefinitionWriter<'_, 'q> {
    /// Prints an expression. Its outermost conversion is left out if it is implicit, unless `shows_casts`.
    pub fn expression(&mut self, node: &Node<'q>, shows_casts: bool) {
        on_deep_stack(|| self.expression_inner(node, shows_casts));
    }

    fn expression_inner(&mut self, node: &Node<'q>, shows_casts: bool) {
        match node {
            Node::Column(text) | Node::Word(text) => self.push(text),
            Node::Constant(constant) => self.constant(constant, Label::Needed),
            Node::Subscript(base, path) => self.subscripts(base, path),
            Node::Field(base, name) => {
                self.push("(");
                self.expression(base, true);
                self.push(&format!(").{}", quote_ident(name)));
            }
            Node::Call(call) => self.call(call),
            Node::Syntax(name, arguments) => self.syntax(name, arguments),
            Node::Cast(cast) => self.cast(cast, shows_casts),
            Node::Operation(operator, left, right) => {
                self.loose(|w| w.operation(operator, left.as_deref(), right))
            }
            Node::Quantified(quantified) => self.loose(|w| w.quantified(quantified)),
            Node::And(operands) => self.loose(|w| w.chain(operands, " AND ", Around::And)),
            Node::Or(operands) => self.loose(|w| w.chain(operands, " OR ", Around::Or)),
            Node::Not(operand) => self.loose(|w| {
                w.push("NOT ");
                w.operand(operand, false, Around::Not);
            }),
            Node::Test(operand, words) => self.loose(|w| {
                // A test for NULL shows what is converted, one of a condition does not.
                w.operand(operand, words.ends_with("NULL"), Around::Other);
                w.push(words);
            }),
            Node::Distinct(left, right) => self.loose(|w| {
                w.operand(left, true, Around::Other);
                w.push(" IS DISTINCT FROM ");
                w.operand(right, true, Around::Other);
            }),
            Node::RowComparison(operator, left, right) => {
                self.push("(ROW(");
                self.list(left, true);
                self.push(&format!(") {operator} ROW("));
                self.list(right, true);
                self.push("))");
            }
            Node::Collate(operand, collation) => self.loose(|w| {
                w.operand(operand, shows_casts, Around::Other);
                w.push(&format!(" COLLATE {collation}"));
            }),
            Node::Case(case) => self.case(case),
            Node::Array(elements, ty) => {
                self.push("ARRAY[");
                self.list(elements, true);
                self.push("]");
                if elements.is_empty() {
                    self.push(&format!("::{}", format_type(ty.ty, Some(ty.modifier))));
                }
            }
            Node::Row(fields) => self.enclosed("ROW", fields),
            Node::Construct(name, operands) => self.enclosed(name, operands),
            Node::Query(subquery) => self.subquery(subquery),
        }
    }

    /// Prints an expression within parentheses that are left out where only needed ones are printed.
    fn loose(&mut self, print: impl FnOnce(&mut Self)) {
        let is_enclosed = !self.style.is_pretty;
        self.push(if is_enclosed { "(" } else { "" });
        print(self);
        self.push(if is_enclosed { ")" } else { "" });
    }

    /// Prints an expression that is part of another one.
    fn operand(&mut self, node: &Node<'q>, shows_casts: bool, around: Around<'_>) {
        let is_enclosed = self.style.is_pretty && !node.is_simple(around);
        self.push(if is_enclosed { "(" } else { "" });
        self.expression(node, shows_casts);
        self.push(if is_enclosed { ")" } else { "" });
    }

    /// Prints expressions with commas between them.
    pub fn list(&mut self, nodes: &[Node<'q>], shows_casts: bool) {
        for (at, node) in nodes.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            self.expression(node, shows_casts);
        }
    }

    fn enclosed(&mut self, name: &str, nodes: &[Node<'q>]) {
        self.push(&format!("{name}("));
        self.list(nodes, true);
        self.push(")");
    }

    /// Prints a constant.
    pub fn constant(&mut self, constant: &Constant, label: Label) {
        let Constant { text, ty } = constant;
        let Some(text) = text else {
            self.push("NULL");
            if label != Label::Never {
                self.push(&format!("::{}", format_type(ty.ty, Some(ty.modifier))));
            }
            return;
        };
        let is_number = text.starts_with(|first: char| first.is_ascii_digit());
        let (is_bare, is_sure) = match ty.ty {
            Type::Int4 => (is_number, is_number),
            Type::Numeric => {
                let is_bare = is_number && text.contains(['.', 'e', 'E']);
                (is_bare, is_bare && ty.modifier < 0)
            }
            Type::Bool => (true, true),
            Type::Unknown => (false, true),
            _ => (false, false),
        };
        match (ty.ty, is_bare) {
            (Type::Bool, _) => self.push(if text == "t" { "true" } else { "false" }),
            (_, true) => self.push(text),
            (_, false) => self.push(&format!("'{}'", text.replace('\'', "''"))),
        }
        if label == Label::Always || (label == Label::Needed && !is_sure) {
            self.push(&format!("::{}", format_type(ty.ty, Some(ty.modifier))));
        }
    }

    fn subscripts(&mut self, base: &Node<'q>, path: &[Subscript<'q>]) {
        let is_enclosed = !matches!(base, Node::Column(_) | Node::Field(..));
        self.push(if is_enclosed { "(" } else { "" });
        self.expression(base, true);
        self.push(if is_enclosed { ")" } else { "" });
        for step in path {
            self.push("[");
            match step {
                Subscript::At(at) => self.expression(at, false),
                Subscript::Slice(from, to) => {
                    from.iter().for_each(|from| self.expression(from, false));
                    self.push(":");
                    to.iter().for_each(|to| self.expression(to, false));
                }
            }
            self.push("]");
        }
    }

    fn cast(&mut self, cast: &Cast<'q>, shows_casts: bool) {
        let around = Around::Other;
        if !cast.is_explicit && !shows_casts {
            return self.operand(&cast.operand, false, around);
        }
        match &cast.operand {
            Node::Constant(constant) if constant.ty.ty == cast.ty.ty && constant.ty.modifier < 0 => {
                self.constant(constant, Label::Never);
            }
            operand => self.loose(|w| w.operand(operand, false, around)),
        }
        self.push(&format!("::{}", format_type(cast.ty.ty, Some(cast.ty.modifier))));
    }

    fn operation(&mut self, operator: &str, left: Option<&Node<'q>>, right: &Node<'q>) {
        let is_binary = left.is_some();
        let around = |is_first| Around::Operation { operator, is_binary, is_first };
        if let Some(left) = left {
            self.operand(left, true, around(true));
            self.push(" ");
        }
        self.push(&format!("{operator} "));
        self.operand(right, true, around(!is_binary));
    }

    fn quantified(&mut self, quantified: &Quantified<'q>) {
        let Quantified { left, operator, is_all, array, query_type } = quantified;
        self.operand(left, true, Around::Other);
        self.push(&format!(" {operator} {} (", if *is_all { "ALL" } else { "ANY" }));
        self.operand(array, true, Around::Other);
        // Without the type, it would be a subquery whose rows are compared.
        if let Some(ty) = query_type {
            self.push(&format!("::{}", format_type(*ty, Some(-1))));
        }
        self.push(")");
    }

    fn chain(&mut self, operands: &[Node<'q>], word: &str, around: Around<'_>) {
        for (at, operand) in operands.iter().enumerate() {
            self.push(if at > 0 { word } else { "" });
            self.operand(operand, false, around);
        }
    }

    fn case(&mut self, case: &Case<'q>) {
        self.keyword("CASE", 0, CASE_INDENT, 0);
        if let Some(operand) = &case.operand {
            self.push(" ");
            self.expression(operand, true);
        }
        for (condition, result) in &case.branches {
            self.keyword("WHEN ", 0, 0, 0);
            self.expression(condition, false);
            self.push(" THEN ");
            self.expression(result, true);
        }
        self.keyword("ELSE ", 0, 0, 0);
        self.expression(&case.otherwise, true);
        self.keyword("END", -CASE_INDENT, 0, 0);
    }

    fn call(&mut self, call: &Call<'q>) {
        self.push(&format!("{}(", quote_ident(&call.name)));
        self.push(if call.is_distinct { "DISTINCT " } else { "" });
        self.push(if call.has_star { "*" } else { "" });
        for (at, (name, argument)) in call.arguments.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            let is_last = at + 1 == call.arguments.len();
            self.push(if call.is_variadic && is_last { "VARIADIC " } else { "" });
            if let Some(name) = name {
                self.push(&format!("{} => ", quote_ident(name)));
            }
            self.expression(argument, true);
        }
        if !call.order_by.is_empty() {
            self.push(if call.is_within_group { ") WITHIN GROUP (ORDER BY " } else { " ORDER BY " });
            self.sort_keys(&call.order_by);
        }
        if let Some(filter) = &call.filter {
            self.push(") FILTER (WHERE ");
            self.expression(filter, false);
        }
        self.push(")");
        match &call.over {
            None => {}
            Some(Over::Name(name)) => self.push(&format!(" OVER {}", quote_ident(name))),
            Some(Over::Window(window)) => {
                self.push(" OVER ");
                self.window(window);
            }
        }
    }

    /// Prints a window in its parentheses.
    pub fn window(&mut self, window: &Window<'q>) {
        self.push("(");
        let mut space = "";
        if let Some(base) = &window.base {
            self.push(&quote_ident(base));
            space = " ";
        } else if !window.partition_by.is_empty() {
            self.push("PARTITION BY ");
            for (at, key) in window.partition_by.iter().enumerate() {
                self.push(if at > 0 { ", " } else { "" });
                self.key(key);
            }
            space = " ";
        }
        if !window.order_by.is_empty() {
            self.push(&format!("{space}ORDER BY "));
            self.sort_keys(&window.order_by);
            space = " ";
        }
        for part in &window.frame {
            self.push(space);
            match part {
                FramePart::Words(words) => self.push(words),
                FramePart::Offset(offset) => self.expression(offset, false),
            }
            space = " ";
        }
        self.push(")");
    }

    /// Prints keys of ORDER BY.
    pub fn sort_keys(&mut self, keys: &[SortKey<'q>]) {
        for (at, key) in keys.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            self.key(&key.value);
            self.push(&key.words);
        }
    }

    /// Prints a key of a sort or a group, so that it cannot be taken for a number of a column or a grouping set.
    pub fn key(&mut self, node: &Node<'q>) {
        match node {
            Node::Constant(constant) => self.constant(constant, Label::Always),
            Node::Column(_) => self.expression(node, true),
            _ => {
                let is_enclosed = self.style.is_pretty || node.is_call_like();
                self.push(if is_enclosed { "(" } else { "" });
                self.expression(node, true);
                self.push(if is_enclosed { ")" } else { "" });
            }
        }
    }

    /// Prints a call in the standard's words.
    fn syntax(&mut self, name: &str, arguments: &[Node<'q>]) {
        /// Words before, between and behind the arguments, which have numbers.
        type Form = &'static [(&'static str, usize)];
        let (form, end): (Form, &str) = match (name, arguments.len()) {
            ("timezone", 2) => (&[("(", 1), (" AT TIME ZONE ", 0)], ")"),
            ("overlaps", 4) => (&[("((", 0), (", ", 1), (") OVERLAPS (", 2), (", ", 3)], "))"),
            ("extract", 2) => {
                self.push("EXTRACT(");
                match &arguments[0] {
                    Node::Constant(Constant { text: Some(field), .. }) => self.push(field),
                    other => self.expression(other, false),
                }
                (&[(" FROM ", 1)], ")")
            }
            ("is_normalized", 1) => (&[("((", 0)], ") IS NORMALIZED)"),
            ("pg_collation_for", 1) => (&[("COLLATION FOR (", 0)], ")"),
            ("position", 2) => (&[("POSITION((", 1), (") IN (", 0)], "))"),
            ("substring", 2) => (&[("SUBSTRING(", 0), (" FROM ", 1)], ")"),
            ("substring", 3) => (&[("SUBSTRING(", 0), (" FROM ", 1), (" FOR ", 2)], ")"),
            ("similar", 3) => (&[("SUBSTRING(", 0), (" SIMILAR ", 1), (" ESCAPE ", 2)], ")"),
            ("overlay", 3) => (&[("OVERLAY(", 0), (" PLACING ", 1), (" FROM ", 2)], ")"),
            ("overlay", 4) => (&[("OVERLAY(", 0), (" PLACING ", 1), (" FROM ", 2), (" FOR ", 3)], ")"),
            ("btrim", 1) => (&[("TRIM(BOTH FROM ", 0)], ")"),
            ("btrim", 2) => (&[("TRIM(BOTH ", 1), (" FROM ", 0)], ")"),
            ("ltrim", 1) => (&[("TRIM(LEADING FROM ", 0)], ")"),
            ("ltrim", 2) => (&[("TRIM(LEADING ", 1), (" FROM ", 0)], ")"),
            ("rtrim", 1) => (&[("TRIM(TRAILING FROM ", 0)], ")"),
            ("rtrim", 2) => (&[("TRIM(TRAILING ", 1), (" FROM ", 0)], ")"),
            _ => return self.enclosed(&quote_ident(name), arguments),
        };
        for (words, number) in form {
            self.push(words);
            self.operand(&arguments[*number], false, Around::Other);
        }
        self.push(end);
    }

    fn subquery(&mut self, subquery: &Subquery<'q>) {
        let Subquery { kind, left, query } = subquery;
        self.push(if matches!(kind, SubqueryKind::Array) { "ARRAY(" } else { "(" });
        match &left[..] {
            [] => {}
            [one] => self.expression(one, true),
            many => {
                self.push("(");
                self.list(many, true);
                self.push(")");
            }
        }
        let words = match kind {
            SubqueryKind::Scalar | SubqueryKind::Array => String::new(),
            SubqueryKind::Exists => "EXISTS (".to_owned(),
            SubqueryKind::Any(operator) if operator == "=" => " IN (".to_owned(),
            SubqueryKind::Any(operator) => format!(" {operator} ANY ("),
            SubqueryKind::All(operator) => format!(" {operator} ALL ("),
            SubqueryKind::Row(operator) => format!(" {operator} ("),
        };
        self.push(&words);
        self.nested_query(query, false);
        self.push(if words.is_empty() { ")" } else { "))" });
    }
}
