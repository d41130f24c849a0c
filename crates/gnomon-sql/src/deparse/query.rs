//! Printing of queries: clauses, their lines and indents.

use gnomon_parser::ast::{
    Constant as AstConstant, Distinct, Expr, GroupingElement, Limit, LockWait, LockingClause, Query,
    QueryBody, Select, SetOperation, SetOperationKind, SortBy, Statement, Target, Value, Values, With,
};

use super::{
    call::sort_key,
    from::{name_relations, print_from},
    node::Node,
    writer::{DefinitionReader, DefinitionWriter, Level},
};
use crate::{
    binder::figure_name,
    executor::expr::on_deep_stack,
    functions::quote_ident,
    types::{Type, cast::common_type},
};

/// The indent of a level.
const INDENT: isize = 8;
/// The indent of lists that go on, from that of their clause.
const LIST_INDENT: usize = 4;
/// The name of VALUES as a relation.
const VALUES_NAME: &str = "\"*VALUES*\"";

/// A query, with the clauses of the queries in parentheses that it consists of.
struct Clauses<'q> {
    with: Option<&'q With>,
    body: &'q QueryBody,
    order_by: &'q [SortBy],
    limit: Option<&'q Limit>,
    locks: &'q [LockingClause],
}

impl<'q> Clauses<'q> {
    fn of(query: &'q Query) -> Clauses<'q> {
        let inner = Clauses::of_body(&query.body);
        Clauses {
            with: query.with.as_deref().or(inner.with),
            order_by: if query.order_by.is_empty() { inner.order_by } else { &query.order_by },
            limit: query.limit.as_deref().or(inner.limit),
            locks: if query.locks.is_empty() { inner.locks } else { &query.locks },
            ..inner
        }
    }

    fn of_body(body: &'q QueryBody) -> Clauses<'q> {
        match body {
            QueryBody::Query(query) => on_deep_stack(|| Clauses::of(query)),
            body => Clauses { with: None, body, order_by: &[], limit: None, locks: &[] },
        }
    }

    /// True if there is more than the body.
    fn has_more(&self) -> bool {
        self.with.is_some() || !self.order_by.is_empty() || self.limit.is_some() || !self.locks.is_empty()
    }
}

/// The use of a query's columns.
#[derive(Clone, Copy)]
pub struct Columns<'c> {
    /// The names that they must get; none for those of the query.
    pub names: Option<&'c [String]>,
    /// The types that literals in their places get.
    pub types: &'c [Type],
    /// True if something refers to their names.
    pub are_visible: bool,
}

impl<'q> DefinitionWriter<'_, 'q> {
    /// Prints a query that stands within another one.
    pub fn nested_query(&mut self, query: &'q Query, are_visible: bool) {
        let types = self.reader.column_types(&query.body);
        let columns = Columns { names: None, types: &types, are_visible };
        self.clauses(&Clauses::of(query), columns);
    }

    /// Prints a view's query, whose columns have these names.
    pub fn view_query(&mut self, query: &'q Query, names: &[String]) {
        let types = self.reader.column_types(&query.body);
        let columns = Columns { names: Some(names), types: &types, are_visible: true };
        self.clauses(&Clauses::of(query), columns);
    }

    fn clauses(&mut self, clauses: &Clauses<'q>, columns: Columns<'_>) {
        let indent = self.indent;
        self.reader.levels.push(Level::default());
        if let Some(with) = clauses.with {
            name_tables(self, with);
        }
        if let QueryBody::Select(select) = clauses.body {
            name_relations(self, &select.from);
        }
        if let Some(with) = clauses.with {
            self.with(with);
        }
        match clauses.body {
            QueryBody::SetOperations(chain) => self.set_operation(&chain.first, &chain.rest, columns),
            body => {
                self.indent = self.indent.saturating_add_signed(INDENT);
                self.push(" ");
                match body {
                    QueryBody::Select(select) => self.select(select, columns),
                    QueryBody::Values(values) => self.values_query(values, columns),
                    // Clauses have no others.
                    QueryBody::SetOperations(_) | QueryBody::Query(_) => {}
                }
            }
        }
        self.tail(clauses, columns.types);
        self.reader.levels.pop();
        self.indent = indent;
    }

    /// Prints ORDER BY and what else follows the body.
    fn tail(&mut self, clauses: &Clauses<'q>, types: &[Type]) {
        if !clauses.order_by.is_empty() {
            self.keyword(" ORDER BY ", -INDENT, INDENT, 1);
            let mut shown = Vec::new();
            for key in clauses.order_by {
                let value = self.reader.sort_value(&key.value, clauses.body, types);
                let sort_key = sort_key(value, key);
                let text = self.aside(|w| match clauses.body {
                    QueryBody::SetOperations(_) => w.expression(&sort_key.value, true),
                    _ => w.key(&sort_key.value),
                });
                // A later key of the same value decides nothing.
                if !shown.contains(&text) {
                    self.push(if shown.is_empty() { "" } else { ", " });
                    self.push_aside(&text);
                    self.push(&sort_key.words);
                    shown.push(text);
                }
            }
        }
        if let Some(limit) = clauses.limit {
            self.limit(limit);
        }
        for lock in clauses.locks {
            print_lock(self, lock);
        }
    }

    fn limit(&mut self, limit: &'q Limit) {
        if let Some(offset) = &limit.offset {
            self.keyword(" OFFSET ", -INDENT, INDENT, 0);
            let offset = self.reader.converted(offset, Type::Int8.into());
            self.expression(&offset, false);
        }
        let Some(count) = &limit.count else { return };
        let count = self.reader.converted(count, Type::Int8.into());
        if limit.is_with_ties {
            self.keyword(" FETCH FIRST ", -INDENT, INDENT, 0);
            self.push("(");
            self.expression(&count, false);
            self.push(") ROWS WITH TIES");
            return;
        }
        self.keyword(" LIMIT ", -INDENT, INDENT, 0);
        match &count {
            Node::Constant(constant) if constant.text.is_none() => self.push("ALL"),
            count => self.expression(count, false),
        }
    }

    fn with(&mut self, with: &'q With) {
        self.indent = self.indent.saturating_add_signed(INDENT);
        self.push(if with.is_recursive { " WITH RECURSIVE " } else { " WITH " });
        for (at, table) in with.tables.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            self.push(&quote_ident(&table.name.name));
            if !table.columns.is_empty() {
                self.push(&format!("({})", names(&table.columns)));
            }
            self.push(match table.is_materialized {
                Some(true) => " AS MATERIALIZED (",
                Some(false) => " AS NOT MATERIALIZED (",
                None => " AS (",
            });
            self.keyword("", 0, 0, 0);
            // A view has no changes in it.
            if let Statement::Query(query) = &*table.statement {
                self.nested_query(query, true);
            }
            self.keyword(")", 0, 0, 0);
            search(self, table);
        }
        self.indent = self.indent.saturating_add_signed(-INDENT);
        self.keyword("", 0, 0, 0);
    }

    fn select(&mut self, select: &'q Select, columns: Columns<'_>) {
        self.push("SELECT");
        match &select.distinct {
            Distinct::No => {}
            Distinct::Yes => self.push(" DISTINCT"),
            Distinct::On(keys) => {
                self.push(" DISTINCT ON (");
                for (at, key) in keys.iter().enumerate() {
                    self.push(if at > 0 { ", " } else { "" });
                    let node = self.reader.grouped(key, select, true);
                    self.key(&node);
                }
                self.push(")");
            }
        }
        self.targets(&select.targets, columns);
        print_from(self, &select.from);
        if let Some(filter) = &select.filter {
            self.keyword(" WHERE ", -INDENT, INDENT, 1);
            let filter = self.reader.converted(filter, Type::Bool.into());
            self.expression(&filter, false);
        }
        if !select.group_by.is_empty() {
            self.keyword(" GROUP BY ", -INDENT, INDENT, 1);
            self.push(if select.is_group_distinct { "DISTINCT " } else { "" });
            match select.group_by.iter().all(|element| matches!(element, GroupingElement::Expr(_))) {
                true => self.group_keys(&select.group_by, select),
                false => self.grouping_elements(&select.group_by, select, true),
            }
        }
        if let Some(having) = &select.having {
            self.keyword(" HAVING ", -INDENT, INDENT, 0);
            let having = self.reader.converted(having, Type::Bool.into());
            self.expression(&having, false);
        }
        for (at, window) in select.windows.iter().enumerate() {
            match at {
                0 => self.keyword(" WINDOW ", -INDENT, INDENT, 1),
                _ => self.push(", "),
            }
            if let Some(name) = &window.name {
                self.push(&format!("{} AS ", quote_ident(&name.name)));
            }
            let window = self.reader.window_of(window);
            self.window(&window);
        }
    }

    /// Prints the select list, each column on a line of its own if lines are not wrapped elsewhere.
    fn targets(&mut self, targets: &'q [Target], columns: Columns<'_>) {
        let mut was_multiline = false;
        for (at, target) in targets.iter().enumerate() {
            self.push(if at > 0 { ", " } else { " " });
            let name =
                columns.names.and_then(|names| names.get(at)).map_or_else(|| name_of(target), String::clone);
            let ty = columns.types.get(at);
            let text = self.aside(|w| w.target(&target.value, ty, &name, columns.are_visible));
            let begins_line = text.starts_with('\n');
            if at > 0 && !begins_line && (was_multiline || self.overflows(&text)) {
                self.keyword("", -INDENT, INDENT, LIST_INDENT);
            }
            was_multiline = text.strip_prefix('\n').unwrap_or(&text).contains('\n');
            self.push_aside(&text);
        }
    }

    /// True if text does not fit into the present line.
    pub fn overflows(&self, text: &str) -> bool {
        self.style.wrap.is_some_and(|width| self.line_length() + text.len() > width)
    }

    fn target(&mut self, value: &'q Expr, ty: Option<&Type>, name: &str, are_visible: bool) {
        let ty = ty.filter(|_| !is_star(value));
        let node = self.reader.target_value(value, ty);
        self.expression(&node, true);
        let is_named = match (value, &node) {
            (star, _) if is_star(star) => true,
            (Expr::Column(column), Node::Column(_)) => {
                column.fields.last().is_some_and(|own| *own.name == *name)
            }
            (Expr::Indirection(_), Node::Column(_)) => figure_name(value) == name,
            _ => !are_visible && name == "?column?",
        };
        if !is_named {
            self.push(&format!(" AS {}", quote_ident(name)));
        }
    }

    /// Prints keys of GROUP BY without grouping sets, each once.
    fn group_keys(&mut self, elements: &'q [GroupingElement], select: &'q Select) {
        let mut shown = Vec::new();
        for element in elements {
            let text = self.aside(|w| w.grouping_elements(std::slice::from_ref(element), select, true));
            if !shown.contains(&text) {
                self.push(if shown.is_empty() { "" } else { ", " });
                self.push_aside(&text);
                shown.push(text);
            }
        }
    }

    fn grouping_elements(&mut self, elements: &'q [GroupingElement], select: &'q Select, is_bare: bool) {
        for (at, element) in elements.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            match element {
                GroupingElement::Expr(expr) => self.grouping_set(expr, select, is_bare),
                GroupingElement::Empty(_) => self.push("()"),
                GroupingElement::Rollup(exprs, _) => self.grouping_sets("ROLLUP(", exprs, select),
                GroupingElement::Cube(exprs, _) => self.grouping_sets("CUBE(", exprs, select),
                GroupingElement::Sets(elements, _) => {
                    self.push("GROUPING SETS (");
                    self.grouping_elements(elements, select, false);
                    self.push(")");
                }
            }
        }
    }

    fn grouping_sets(&mut self, words: &str, exprs: &'q [Expr], select: &'q Select) {
        self.push(words);
        for (at, expr) in exprs.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            self.grouping_set(expr, select, true);
        }
        self.push(")");
    }

    /// Prints a set of keys: in parentheses, unless it is one key and may stand without.
    fn grouping_set(&mut self, expr: &'q Expr, select: &'q Select, is_bare: bool) {
        let keys = match expr {
            Expr::Row(row) if !row.is_explicit => &row.fields[..],
            expr => std::slice::from_ref(expr),
        };
        let is_enclosed = !is_bare || keys.len() != 1;
        self.push(if is_enclosed { "(" } else { "" });
        for (at, key) in keys.iter().enumerate() {
            self.push(if at > 0 { ", " } else { "" });
            let node = self.reader.grouped(key, select, false);
            self.key(&node);
        }
        self.push(if is_enclosed { ")" } else { "" });
    }

    /// Prints VALUES as a query; as a relation, if its columns are to have other names than their own.
    fn values_query(&mut self, values: &'q Values, columns: Columns<'_>) {
        let own = |at: usize| format!("column{}", at + 1);
        let is_renamed =
            columns.names.is_some_and(|names| names.iter().enumerate().any(|(at, name)| *name != own(at)));
        let Some(names) = columns.names.filter(|_| is_renamed) else {
            return self.values(values, columns.types);
        };
        self.push("SELECT");
        for (at, name) in names.iter().enumerate() {
            self.push(if at > 0 { ", " } else { " " });
            let own = own(at);
            let alias = if own == *name { String::new() } else { format!(" AS {}", quote_ident(name)) };
            let text = format!("{VALUES_NAME}.{own}{alias}");
            if at > 0 && self.overflows(&text) {
                self.keyword("", -INDENT, INDENT, LIST_INDENT);
            }
            self.push(&text);
        }
        self.keyword(" FROM ", -INDENT, INDENT, 2);
        self.push("(");
        self.values(values, columns.types);
        self.push(&format!(") {VALUES_NAME}"));
    }

    fn values(&mut self, values: &'q Values, types: &[Type]) {
        self.push("VALUES ");
        for (at, row) in values.rows.iter().enumerate() {
            self.push(if at > 0 { ", (" } else { "(" });
            for (at, value) in row.iter().enumerate() {
                self.push(if at > 0 { "," } else { "" });
                let ty = types.get(at).copied().filter(|ty| *ty != Type::Unknown).unwrap_or(Type::Text);
                let node = self.reader.converted(value, ty.into());
                self.expression(&node, false);
            }
            self.push(")");
        }
    }

    /// Prints set operations, the last of which is the outermost.
    fn set_operation(&mut self, first: &'q QueryBody, rest: &'q [SetOperation], columns: Columns<'_>) {
        let Some((last, before)) = rest.split_last() else { return self.operand_query(first, columns) };
        let is_same = |other: &SetOperation| other.kind == last.kind && other.is_all == last.is_all;
        let (is_operation, is_enclosed) = match before.last() {
            Some(other) => (true, !is_same(other)),
            None => match operations(first) {
                Some(chain) => (true, !chain.rest.last().is_some_and(is_same)),
                None => (false, false),
            },
        };
        if is_enclosed {
            self.push("(");
            self.keyword("", INDENT, 0, 0);
        }
        match is_operation && before.is_empty() {
            true => self.operand_query(first, columns),
            false => on_deep_stack(|| self.set_operation(first, before, columns)),
        }
        match is_enclosed {
            true => self.keyword(") ", -INDENT, 0, 0),
            false => self.keyword("", 0, 0, 0),
        }
        self.push(match last.kind {
            SetOperationKind::Union => "UNION ",
            SetOperationKind::Intersect => "INTERSECT ",
            SetOperationKind::Except => "EXCEPT ",
        });
        self.push(if last.is_all { "ALL " } else { "" });
        let indent = if operations(&last.right).is_some() { INDENT } else { 0 };
        self.push(if indent > 0 { "(" } else { "" });
        self.keyword("", indent, 0, 0);
        self.operand_query(&last.right, Columns { are_visible: false, ..columns });
        self.indent = self.indent.saturating_add_signed(-indent);
        if indent > 0 {
            self.keyword(")", 0, 0, 0);
        }
    }

    /// Prints an operand of a set operation.
    fn operand_query(&mut self, body: &'q QueryBody, columns: Columns<'_>) {
        if let Some(chain) = operations(body) {
            return on_deep_stack(|| self.set_operation(&chain.first, &chain.rest, columns));
        }
        let clauses = Clauses::of_body(body);
        let is_enclosed = clauses.has_more();
        self.push(if is_enclosed { "(" } else { "" });
        self.clauses(&clauses, columns);
        self.push(if is_enclosed { ")" } else { "" });
    }
}

impl<'q> DefinitionReader<'_, 'q> {
    /// The value that a sort key means.
    fn sort_value(&self, key: &'q Expr, body: &'q QueryBody, types: &[Type]) -> Node<'q> {
        match body {
            QueryBody::Select(select) => match target_of(key, select, true) {
                Some(at) => self.target_value(&select.targets[at].value, types.get(at)),
                None => self.known(key),
            },
            QueryBody::Values(_) => {
                let own = match key {
                    Expr::Column(column) => column.fields.last().map(|name| quote_ident(&name.name)),
                    key => numbered(key).map(|number| format!("column{number}")),
                };
                Node::Column(format!("{VALUES_NAME}.{}", own.unwrap_or_default()))
            }
            body => {
                let number = numbered(key).or_else(|| {
                    let name = plain_name(key)?;
                    output_names(body).iter().position(|output| output == name).map(|at| at + 1)
                });
                Node::Word(number.map_or_else(|| key.to_string(), |number| number.to_string()))
            }
        }
    }

    /// A column of a result; a literal has the type that its place gives it.
    fn target_value(&self, value: &'q Expr, ty: Option<&Type>) -> Node<'q> {
        match ty {
            Some(ty) if *ty != Type::Unknown && self.type_of(value).ty == Type::Unknown => {
                self.converted(value, (*ty).into())
            }
            _ => self.known(value),
        }
    }

    /// The value that a key of GROUP BY or DISTINCT ON means.
    fn grouped(&self, key: &'q Expr, select: &'q Select, takes_names: bool) -> Node<'q> {
        match target_of(key, select, takes_names) {
            Some(at) => self.known(&select.targets[at].value),
            None => self.known(key),
        }
    }

    /// The types of a query's columns; unknown for those of literals that nothing decides.
    pub fn column_types(&self, body: &QueryBody) -> Vec<Type> {
        let merged = |mut types: Vec<Type>, other: Vec<Type>| {
            for (ty, other) in types.iter_mut().zip(other) {
                *ty = common_type(&[*ty, other], "").unwrap_or(*ty);
            }
            types
        };
        let row = |row: &[Expr]| row.iter().map(|value| self.type_of(value).ty).collect::<Vec<Type>>();
        on_deep_stack(|| match body {
            QueryBody::Select(select) if select.targets.iter().any(|target| is_star(&target.value)) => {
                Vec::new()
            }
            QueryBody::Select(select) => {
                select.targets.iter().map(|target| self.type_of(&target.value).ty).collect()
            }
            QueryBody::Values(values) => {
                values.rows.iter().map(|values| row(values)).reduce(merged).unwrap_or_default()
            }
            QueryBody::SetOperations(chain) => {
                chain.rest.iter().fold(self.column_types(&chain.first), |types, next| {
                    merged(types, self.column_types(&next.right))
                })
            }
            QueryBody::Query(query) => self.column_types(&query.body),
        })
    }
}

/// The set operations that an operand is, if it is nothing else.
fn operations(body: &QueryBody) -> Option<&gnomon_parser::ast::SetOperations> {
    let clauses = Clauses::of_body(body);
    match clauses.body {
        QueryBody::SetOperations(chain) if !clauses.has_more() => Some(chain),
        _ => None,
    }
}

fn name_of(target: &Target) -> String {
    match &target.alias {
        Some(alias) => alias.name.to_string(),
        None => figure_name(&target.value),
    }
}

/// The names of a query's columns.
fn output_names(body: &QueryBody) -> Vec<String> {
    match body {
        QueryBody::Select(select) => select.targets.iter().map(name_of).collect(),
        QueryBody::Values(values) => {
            let width = values.rows.first().map_or(0, Vec::len);
            (1..=width).map(|number| format!("column{number}")).collect()
        }
        QueryBody::SetOperations(chain) => output_names(&chain.first),
        QueryBody::Query(query) => output_names(&query.body),
    }
}

/// True if it stands for columns that have no names of their own, which the binder leaves so.
fn is_star(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.has_star)
}

fn plain_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) if !column.has_star && column.fields.len() == 1 => Some(&*column.fields[0].name),
        _ => None,
    }
}

/// The number of a column that an expression is.
fn numbered(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Constant(AstConstant { value: Value::Integer(number), .. }) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// The position in the select list of the column that a key means by its number or, if `takes_names`, by its name.
fn target_of(key: &Expr, select: &Select, takes_names: bool) -> Option<usize> {
    let by_number = numbered(key).and_then(|number| number.checked_sub(1));
    by_number
        .or_else(|| {
            let name = plain_name(key).filter(|_| takes_names)?;
            select.targets.iter().position(|target| name_of(target) == name)
        })
        .filter(|at| *at < select.targets.len())
}

fn names(names: &[gnomon_parser::ast::Ident]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quote_ident(&name.name)).collect();
    quoted.join(", ")
}

fn name_tables<'q>(w: &mut DefinitionWriter<'_, 'q>, with: &With) {
    let names = with.tables.iter().map(|table| table.name.name.to_string());
    if let Some(level) = w.reader.levels.last_mut() {
        level.tables.extend(names);
    }
}

fn print_lock<'q>(w: &mut DefinitionWriter<'_, 'q>, lock: &LockingClause) {
    let tables: Vec<String> = match lock.tables.is_empty() {
        true => {
            let level = w.reader.levels.last();
            level.into_iter().flat_map(|level| &level.relations).map(|known| known.printed.clone()).collect()
        }
        false => {
            let printed = |name: &str| w.reader.printed_relation(None, name);
            lock.tables.iter().map(|table| printed(&table.name.name)).collect()
        }
    };
    for table in tables {
        w.keyword(&format!(" {} OF {}", lock.strength.words(), quote_ident(&table)), -INDENT, INDENT, 0);
        w.push(match lock.wait {
            LockWait::Wait => "",
            LockWait::Nowait => " NOWAIT",
            LockWait::SkipLocked => " SKIP LOCKED",
        });
    }
}

/// Prints SEARCH and CYCLE.
fn search<'q>(w: &mut DefinitionWriter<'_, 'q>, table: &'q gnomon_parser::ast::CommonTable) {
    if let Some(search) = &table.search {
        let order = if search.is_breadth_first { "BREADTH" } else { "DEPTH" };
        let (columns, sequence) = (names(&search.columns), quote_ident(&search.sequence.name));
        w.push(&format!(" SEARCH {order} FIRST BY {columns} SET {sequence}"));
    }
    let Some(cycle) = &table.cycle else { return };
    w.push(&format!(" CYCLE {} SET {}", names(&cycle.columns), quote_ident(&cycle.mark.name)));
    if let Some((value, default)) = &cycle.values {
        let both = [w.reader.known(value), w.reader.known(default)];
        for (word, node) in [" TO ", " DEFAULT "].into_iter().zip(&both) {
            w.push(word);
            w.expression(node, false);
        }
    }
    w.push(&format!(" USING {}", quote_ident(&cycle.path.name)));
}
