//! Calls, windows and sort keys as [`Node`]s.

use gnomon_parser::ast::{
    self, Expr, FrameBound, FrameExclusion, FrameMode, FunctionCall, SortBy, SortDirection,
};

use super::{
    node::{Call, FramePart, Node, Over, SortKey, Window},
    writer::DefinitionReader,
};
use crate::{
    catalog::system::has_function,
    functions::{
        Arguments, Given, is_aggregate, is_set_function, resolve_aggregate, resolve_call,
        resolve_set_function,
    },
    types::{Type, cast::common_type},
};

impl<'q> DefinitionReader<'_, 'q> {
    /// A call of a function by itself.
    pub fn call_of(&self, name: &str, arguments: Vec<Node<'q>>) -> Node<'q> {
        Node::Call(Box::new(Call {
            name: name.to_owned(),
            arguments: arguments.into_iter().map(|argument| (None, argument)).collect(),
            has_star: false,
            is_distinct: false,
            is_variadic: false,
            is_within_group: false,
            order_by: Vec::new(),
            filter: None,
            over: None,
        }))
    }

    /// A call as the statement has it.
    pub fn function(&self, call: &'q FunctionCall) -> Node<'q> {
        let name = &*call.name.last().name;
        let ordered = if call.is_within_group { &call.order_by[..] } else { &[] };
        let exprs: Vec<&'q Expr> = call
            .arguments
            .iter()
            .map(|argument| &argument.value)
            .chain(ordered.iter().map(|key| &key.value))
            .collect();
        let targets = self.argument_types(name, call, &exprs);
        let mut values = exprs.iter().enumerate().map(|(at, expr)| match targets.get(at) {
            None => self.known(expr),
            // It takes a literal as it is.
            Some(Type::Unknown) => self.node(expr),
            Some(target) => self.converted(expr, (*target).into()),
        });
        let arguments: Vec<Node<'q>> = values.by_ref().take(call.arguments.len()).collect();
        let keys: Vec<Node<'q>> = match call.is_within_group {
            true => values.collect(),
            false => call.order_by.iter().map(|key| self.known(&key.value)).collect(),
        };
        if let Some(form) = syntax_form(call, name, &targets) {
            return Node::Syntax(form.to_owned(), arguments);
        }
        let names = call.arguments.iter().map(|one| one.name.as_ref().map(|name| name.name.to_string()));
        Node::Call(Box::new(Call {
            name: name.to_owned(),
            arguments: names.zip(arguments).collect(),
            has_star: call.has_star,
            is_distinct: call.is_distinct,
            is_variadic: call.is_variadic,
            is_within_group: call.is_within_group,
            order_by: keys.into_iter().zip(&call.order_by).map(|(value, key)| sort_key(value, key)).collect(),
            filter: call.filter.as_ref().map(|filter| self.converted(filter, Type::Bool.into())),
            over: call.over.as_ref().map(|over| match over {
                ast::Over::Name(name) => Over::Name(name.name.to_string()),
                ast::Over::Window(window) => Over::Window(Box::new(self.window_of(window))),
            }),
        }))
    }

    /// The types that a function takes its arguments as; unknown where any will do.
    fn argument_types(&self, name: &str, call: &FunctionCall, exprs: &[&Expr]) -> Vec<Type> {
        let types: Vec<Type> = exprs.iter().map(|expr| self.type_of(expr).ty).collect();
        let oids: Vec<u32> = types.iter().map(|ty| ty.oid()).collect();
        let names: Vec<String> = call
            .arguments
            .iter()
            .filter_map(|argument| Some(argument.name.as_ref()?.name.to_string()))
            .collect();
        let given = Arguments { types: &types, names: &names, is_variadic: call.is_variadic };
        if has_function(name, &oids) {
            return types;
        }
        if is_set_function(name) {
            return resolve_set_function(name, given)
                .map_or(types.clone(), |found| found.arguments().to_vec());
        }
        if is_aggregate(name) {
            let found = resolve_aggregate(name, given, call.is_distinct);
            let found = found.map_or(types.clone(), |found| found.arguments().to_vec());
            let is_of_text = matches!(name, "min" | "max");
            return found
                .into_iter()
                .map(|ty| if is_of_text && ty == Type::Varchar { Type::Text } else { ty })
                .collect();
        }
        if let ("lag" | "lead", [value, offset, default]) = (name, &types[..]) {
            let shared = common_type(&[*value, *default], name).unwrap_or(*value);
            let offset = if *offset == Type::Unknown { Type::Int4 } else { *offset };
            return vec![shared, offset, shared];
        }
        let Ok(found) = resolve_call(name, given) else { return types };
        let mut targets = vec![Type::Unknown; types.len()];
        for (given, ty) in found.given.iter().zip(found.function.arguments()) {
            if let Given::Argument(number) = given
                && let Some(target) = targets.get_mut(*number)
            {
                *target = *ty;
            }
        }
        // Arguments that become an array keep their place in the call.
        if found.function.is_spread() && !call.is_variadic {
            let first = found.function.arguments().len().saturating_sub(1);
            let element = found.function.arguments().last().map(|ty| ty.element().unwrap_or(*ty));
            targets[first.min(types.len())..].fill(element.unwrap_or(Type::Unknown));
        }
        targets
    }

    /// A window.
    pub fn window_of(&self, window: &'q ast::WindowDefinition) -> Window<'q> {
        let keys = window.order_by.iter();
        Window {
            base: window.base.as_ref().map(|base| base.name.to_string()),
            partition_by: window.partition_by.iter().map(|key| self.known(key)).collect(),
            order_by: keys.map(|key| sort_key(self.known(&key.value), key)).collect(),
            frame: window.frame.as_ref().map_or_else(Vec::new, |frame| {
                let key = window.order_by.first().map(|key| self.type_of(&key.value).ty);
                self.frame(frame, key)
            }),
        }
    }

    /// A frame clause; `key` is the type of the window's only sort key.
    fn frame(&self, frame: &'q ast::Frame, key: Option<Type>) -> Vec<FramePart<'q>> {
        let offset_type = match (frame.mode, key) {
            (FrameMode::Rows | FrameMode::Groups, _) => Type::Int8,
            (_, Some(Type::Date | Type::Timestamp | Type::Timestamptz | Type::Time)) => Type::Interval,
            (_, key) => key.unwrap_or(Type::Int8),
        };
        let mut parts = vec![FramePart::Words(match frame.mode {
            FrameMode::Range => "RANGE",
            FrameMode::Rows => "ROWS",
            FrameMode::Groups => "GROUPS",
        })];
        let mut bound = |bound: &'q FrameBound| {
            let (offset, words) = match bound {
                FrameBound::UnboundedPreceding => (None, "UNBOUNDED PRECEDING"),
                FrameBound::Preceding(offset) => (Some(offset), "PRECEDING"),
                FrameBound::CurrentRow => (None, "CURRENT ROW"),
                FrameBound::Following(offset) => (Some(offset), "FOLLOWING"),
                FrameBound::UnboundedFollowing => (None, "UNBOUNDED FOLLOWING"),
            };
            parts.extend(offset.map(|offset| FramePart::Offset(self.converted(offset, offset_type.into()))));
            parts.push(FramePart::Words(words));
        };
        if frame.has_end {
            bound(&frame.start);
            bound(&frame.end);
            let middle = parts.iter().skip(1).position(|part| matches!(part, FramePart::Words(_)));
            parts.insert(middle.map_or(1, |at| at + 2), FramePart::Words("AND"));
            parts.insert(1, FramePart::Words("BETWEEN"));
        } else {
            bound(&frame.start);
        }
        match frame.exclusion {
            FrameExclusion::NoOthers => {}
            FrameExclusion::CurrentRow => parts.push(FramePart::Words("EXCLUDE CURRENT ROW")),
            FrameExclusion::Group => parts.push(FramePart::Words("EXCLUDE GROUP")),
            FrameExclusion::Ties => parts.push(FramePart::Words("EXCLUDE TIES")),
        }
        parts
    }
}

/// The name of the form in the standard's words that a call has.
fn syntax_form<'n>(call: &FunctionCall, name: &'n str, types: &[Type]) -> Option<&'n str> {
    match (name, types) {
        _ if !call.is_sql_syntax => None,
        ("substring", [_, Type::Text, Type::Text]) => Some("similar"),
        // A regular expression is an argument like others.
        ("substring", [_, Type::Text]) => None,
        _ => Some(name),
    }
}

/// A sort key with its direction.
pub fn sort_key<'q>(value: Node<'q>, key: &SortBy) -> SortKey<'q> {
    let words = match &key.direction {
        SortDirection::Using(operator) if &*operator.symbol == "<" => order_words(false, key.is_nulls_first),
        SortDirection::Using(operator) if &*operator.symbol == ">" => order_words(true, key.is_nulls_first),
        SortDirection::Using(operator) => {
            let nulls = if key.is_nulls_first == Some(true) { "FIRST" } else { "LAST" };
            format!(" USING {} NULLS {nulls}", operator.symbol)
        }
        direction => order_words(matches!(direction, SortDirection::Descending), key.is_nulls_first),
    };
    SortKey { value, words }
}

fn order_words(is_descending: bool, is_nulls_first: Option<bool>) -> String {
    let words = match (is_descending, is_nulls_first) {
        (false, Some(true)) => " NULLS FIRST",
        (false, _) => "",
        (true, Some(false)) => " DESC NULLS LAST",
        (true, _) => " DESC",
    };
    words.to_owned()
}
