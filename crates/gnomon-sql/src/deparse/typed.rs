//! From syntax trees to [`Node`]s: constants get their types, and conversions their places, by the types that binding has
//! recorded.

use gnomon_parser::ast::{self, Access, Expr, InSet, LikeKind, QuantifiedOperand, SystemValueKind, Value};

use super::{
    node::{Case, Cast, Constant, Node, Quantified, Subquery, SubqueryKind, Subscript},
    writer::DefinitionReader,
};
use crate::{
    catalog::system::has_operator,
    functions::{quote_ident, resolve_operator},
    types::{ColumnType, Type, cast::common_type, column_type, text},
};

impl<'q> DefinitionReader<'_, 'q> {
    /// The type of an expression by itself.
    pub fn type_of(&self, expr: &Expr) -> ColumnType {
        self.around.analysis.type_of(expr).unwrap_or(Type::Unknown.into())
    }

    /// An expression, converted to a type by the way.
    pub fn converted(&self, expr: &'q Expr, target: ColumnType) -> Node<'q> {
        self.cast_to((self.node(expr), self.type_of(expr)), target, false)
    }

    /// An expression whose type nothing else decides.
    pub fn known(&self, expr: &'q Expr) -> Node<'q> {
        self.settled(self.node(expr), self.type_of(expr))
    }

    fn settled(&self, node: Node<'q>, ty: ColumnType) -> Node<'q> {
        match ty.ty {
            Type::Unknown => self.cast_to((node, ty), Type::Text.into(), false),
            _ => node,
        }
    }

    /// Converts a node; a literal of unknown type becomes a value.
    pub fn cast_to(
        &self,
        (node, from): (Node<'q>, ColumnType),
        target: ColumnType,
        is_explicit: bool,
    ) -> Node<'q> {
        let is_same = |from: ColumnType| {
            let is_any = target.modifier < 0 && !is_explicit;
            from.ty == target.ty && (is_any || target.modifier == from.modifier)
        };
        let (node, from) = match node {
            Node::Constant(Constant { text, ty }) if ty.ty == Type::Unknown && target.ty != Type::Unknown => {
                let ty = if target.ty == Type::Interval { target } else { target.ty.into() };
                (Node::Constant(Constant { text: text.map(|text| self.value_text(text, ty)), ty }), ty)
            }
            node => (node, from),
        };
        // A value of no known type is text already, and its place takes any.
        if is_same(from)
            || target.ty == Type::Unknown
            || (from.ty == Type::Unknown && target.ty == Type::Text)
        {
            return node;
        }
        let is_call = match from.ty == target.ty {
            true => target.modifier >= 0,
            false => is_call(from.ty, target.ty),
        };
        Node::Cast(Box::new(Cast { operand: node, ty: target, is_explicit, is_call }))
    }

    /// The text of the value that a literal is of a type.
    fn value_text(&self, literal: String, ty: ColumnType) -> String {
        let context = self.around.context;
        let value = text::input(context, &literal, ty);
        value.and_then(|value| text::output(context, &value, ty.ty)).unwrap_or(literal)
    }

    /// A binary operator, its operands converted to what it takes.
    fn operation(
        &self,
        operator: &str,
        left: (Node<'q>, ColumnType),
        right: (Node<'q>, ColumnType),
    ) -> Node<'q> {
        let operator = if operator == "!=" { "<>" } else { operator };
        let [left, right] = self.operands(operator, left, right);
        Node::Operation(operator.to_owned(), Some(Box::new(left)), Box::new(right))
    }

    fn operands(
        &self,
        operator: &str,
        left: (Node<'q>, ColumnType),
        right: (Node<'q>, ColumnType),
    ) -> [Node<'q>; 2] {
        let (left_type, right_type) = (left.1.ty, right.1.ty);
        if has_operator(operator, left_type.oid(), right_type.oid()) {
            return [left.0, right.0];
        }
        match resolve_operator(operator, Some(left_type), right_type) {
            Ok(function) => {
                let targets = function.arguments().iter().chain([&Type::Unknown, &Type::Unknown]);
                let mut targets = targets.map(|ty| operand_type(operator, *ty));
                let mut converted = |(node, ty): (Node<'q>, ColumnType)| match targets.next() {
                    Some(target) if !is_taken_as_text(operator, ty.ty) => {
                        self.cast_to((node, ty), target.into(), false)
                    }
                    _ => node,
                };
                [converted(left), converted(right)]
            }
            Err(_) => [self.settled(left.0, left.1), self.settled(right.0, right.1)],
        }
    }

    fn compared(&self, operator: &str, left: &'q Expr, right: &'q Expr) -> Node<'q> {
        match (left, right) {
            (Expr::Row(left), Expr::Row(right)) => self.compared_rows(operator, &left.fields, &right.fields),
            _ => self.operation(operator, self.pair(left), self.pair(right)),
        }
    }

    fn pair(&self, expr: &'q Expr) -> (Node<'q>, ColumnType) {
        (self.node(expr), self.type_of(expr))
    }

    fn compared_rows(&self, operator: &str, left: &'q [Expr], right: &'q [Expr]) -> Node<'q> {
        let operator = if operator == "!=" { "<>" } else { operator };
        let pairs = || left.iter().zip(right);
        let mut tests: Vec<Node<'q>> =
            pairs().map(|(left, right)| self.compared(operator, left, right)).collect();
        match (operator, tests.len()) {
            (_, 1) => tests.remove(0),
            ("=", _) => Node::And(tests),
            ("<>", _) => Node::Or(tests),
            _ => {
                let operands =
                    pairs().map(|(left, right)| self.operands(operator, self.pair(left), self.pair(right)));
                let (left, right) = operands.map(|[left, right]| (left, right)).unzip();
                Node::RowComparison(operator.to_owned(), left, right)
            }
        }
    }

    /// Expressions of one place, converted to the type that they share.
    pub fn alike(&self, exprs: &'q [Expr]) -> (Vec<Node<'q>>, Type) {
        let ty = self.shared_type(exprs.iter());
        (exprs.iter().map(|expr| self.converted(expr, ty.into())).collect(), ty)
    }

    fn shared_type<'e>(&self, exprs: impl Iterator<Item = &'e Expr>) -> Type {
        let types: Vec<Type> = exprs.map(|expr| self.type_of(expr).ty).collect();
        match common_type(&types, "") {
            Ok(Type::Unknown) | Err(_) => Type::Text,
            Ok(ty) => ty,
        }
    }

    /// An expression as it is by itself; literals of unknown type stay so.
    pub fn node(&self, expr: &'q Expr) -> Node<'q> {
        crate::executor::expr::on_deep_stack(|| self.node_inner(expr))
    }

    fn node_inner(&self, expr: &'q Expr) -> Node<'q> {
        use ast::Expr as E;
        match expr {
            E::Column(column) => Node::Column(self.column(column, self.type_of(expr))),
            E::Constant(constant) => self.literal(&constant.value, self.type_of(expr)),
            E::Parameter(parameter) => Node::Word(format!("${}", parameter.number)),
            E::Default(_) => Node::Word("DEFAULT".to_owned()),
            E::Indirection(indirection) => self.indirection(&indirection.base, &indirection.path),
            E::Operation(operation) => self.operator(operation),
            E::Quantified(quantified) => self.quantified(quantified),
            E::And(chain) => Node::And(self.conditions(&chain.operands)),
            E::Or(chain) => Node::Or(self.conditions(&chain.operands)),
            E::Not(not) => Node::Not(Box::new(self.condition(&not.operand))),
            E::IsNull(test) => {
                let words = if test.is_negated { " IS NOT NULL" } else { " IS NULL" };
                Node::Test(Box::new(self.known(&test.operand)), words)
            }
            E::IsBoolean(test) => Node::Test(Box::new(self.condition(&test.operand)), words_of(test)),
            E::IsDistinct(test) => {
                let [left, right] = self.operands("=", self.pair(&test.left), self.pair(&test.right));
                negated(Node::Distinct(Box::new(left), Box::new(right)), test.is_negated)
            }
            E::In(test) => self.is_in(test),
            E::Like(like) => self.like(like),
            E::Between(between) => self.between(between),
            E::Cast(cast) => self.explicit(cast),
            E::Collate(collate) => {
                let collation = quote_ident(&collate.collation.last().name);
                Node::Collate(Box::new(self.known(&collate.operand)), collation)
            }
            E::Case(case) => self.case(case),
            E::Row(row) => Node::Row(row.fields.iter().map(|field| self.known(field)).collect()),
            E::Array(array) => {
                let (elements, ty) = self.alike(&array.elements);
                Node::Array(elements, ty.array().unwrap_or(ty).into())
            }
            E::Subquery(subquery) => query(SubqueryKind::Scalar, Vec::new(), &subquery.query),
            E::Exists(subquery) => query(SubqueryKind::Exists, Vec::new(), &subquery.query),
            E::ArraySubquery(subquery) => query(SubqueryKind::Array, Vec::new(), &subquery.query),
            E::Function(call) => self.function(call),
            E::SystemValue(value) => Node::Word(system_value(value)),
            E::Coalesce(list) => Node::Construct("COALESCE", self.alike(&list.operands).0),
            E::Greatest(list) => Node::Construct("GREATEST", self.alike(&list.operands).0),
            E::Least(list) => Node::Construct("LEAST", self.alike(&list.operands).0),
            E::Grouping(list) => {
                Node::Construct("GROUPING", list.operands.iter().map(|one| self.known(one)).collect())
            }
            E::NullIf(nullif) => {
                let operands = self.operands("=", self.pair(&nullif.left), self.pair(&nullif.right));
                Node::Construct("NULLIF", operands.into())
            }
            // The binder refuses others.
            other => Node::Word(other.to_string()),
        }
    }

    fn column(&self, column: &ast::ColumnReference, ty: ColumnType) -> String {
        let names: Vec<&str> = column.fields.iter().map(|field| &*field.name).collect();
        let star = if column.has_star { ".*" } else { "" };
        match names[..] {
            [relation] if column.has_star || (ty.ty == Type::Record && self.has_relation(relation)) => {
                format!("{}.*", quote_ident(&self.printed_relation(None, relation)))
            }
            [.., name] if self.levels.is_empty() => quote_ident(name),
            [.., schema, relation, name] => {
                let relation = self.printed_relation(Some(schema), relation);
                format!("{}.{}{star}", quote_ident(&relation), quote_ident(name))
            }
            [relation, name] => {
                let relation = self.printed_relation(None, relation);
                format!("{}.{}{star}", quote_ident(&relation), quote_ident(name))
            }
            [name] => quote_ident(name),
            [] => "*".to_owned(),
        }
    }

    fn literal(&self, value: &Value, ty: ColumnType) -> Node<'q> {
        let (text, ty) = match value {
            Value::Null => (None, ty),
            Value::Boolean(value) => (Some(if *value { "t" } else { "f" }.to_owned()), Type::Bool.into()),
            Value::Integer(number) => (Some(number.to_string()), Type::Int4.into()),
            Value::Number(digits) => {
                let ty = if ty.ty == Type::Unknown { Type::Numeric.into() } else { ty };
                (Some(self.value_text(digits.to_string(), ty)), ty)
            }
            Value::String(text) | Value::Bits(text) | Value::Hex(text) => {
                (Some(text.to_string()), Type::Unknown.into())
            }
        };
        Node::Constant(Constant { text, ty })
    }

    fn indirection(&self, base: &'q Expr, path: &'q [Access]) -> Node<'q> {
        // `(t).a` is a column.
        if let (Expr::Column(column), [Access::Field(field)]) = (base, path)
            && let [relation] = &column.fields[..]
            && self.around.analysis.type_of(base).is_none()
        {
            let relation = self.printed_relation(None, &relation.name);
            return Node::Column(format!("{}.{}", quote_ident(&relation), quote_ident(&field.name)));
        }
        let index = |at: &'q Expr| self.converted(at, Type::Int4.into());
        path.iter().fold(self.known(base), |base, step| match step {
            Access::Field(name) => Node::Field(Box::new(base), name.name.to_string()),
            Access::Star => Node::Field(Box::new(base), "*".to_owned()),
            Access::Subscript(at) => Node::Subscript(Box::new(base), vec![Subscript::At(index(at))]),
            Access::Slice(from, to) => {
                let slice = Subscript::Slice(from.as_ref().map(index), to.as_ref().map(index));
                Node::Subscript(Box::new(base), vec![slice])
            }
        })
    }

    fn operator(&self, operation: &'q ast::Operation) -> Node<'q> {
        let symbol = &*operation.operator.symbol;
        let right = &operation.right;
        match &operation.left {
            Some(Expr::Row(row)) if let Expr::Subquery(subquery) = right => {
                let left = row.fields.iter().map(|field| self.known(field)).collect();
                query(SubqueryKind::Row(symbol.to_owned()), left, &subquery.query)
            }
            Some(left) => self.compared(symbol, left, right),
            None => {
                let (node, ty) = self.pair(right);
                let arguments = resolve_operator(symbol, None, ty.ty);
                let target = arguments.ok().and_then(|function| function.arguments().first().copied());
                let is_exact = has_operator(symbol, 0, ty.ty.oid());
                let operand = match target.filter(|_| !is_exact) {
                    Some(target) => self.cast_to((node, ty), target.into(), false),
                    None => node,
                };
                Node::Operation(symbol.to_owned(), None, Box::new(operand))
            }
        }
    }

    fn quantified(&self, quantified: &'q ast::Quantified) -> Node<'q> {
        let operator = match &*quantified.operator.symbol {
            "!=" => "<>",
            symbol => symbol,
        };
        match &quantified.right {
            QuantifiedOperand::Query(subquery) => {
                let kind = match quantified.is_all {
                    true => SubqueryKind::All(operator.to_owned()),
                    false => SubqueryKind::Any(operator.to_owned()),
                };
                self.compared_with_query(kind, operator, &quantified.left, subquery)
            }
            QuantifiedOperand::Array(array) => {
                self.with_array(operator, quantified.is_all, self.pair(&quantified.left), self.pair(array))
            }
        }
    }

    /// A comparison with the elements of an array: both are converted to what the operator takes.
    fn with_array(
        &self,
        operator: &str,
        is_all: bool,
        left: (Node<'q>, ColumnType),
        array: (Node<'q>, ColumnType),
    ) -> Node<'q> {
        let element = array.1.ty.element().unwrap_or(Type::Unknown);
        let (mut to_left, mut to_element) = (left.1.ty, element);
        if !has_operator(operator, left.1.ty.oid(), element.oid())
            && let Ok(function) = resolve_operator(operator, Some(left.1.ty), element)
            && let [first, second] = *function.arguments()
        {
            (to_left, to_element) = (operand_type(operator, first), operand_type(operator, second));
        }
        let to_array = to_element.array().unwrap_or(array.1.ty);
        let query_type = matches!(array.0, Node::Query(_)).then_some(to_array);
        Node::Quantified(Box::new(Quantified {
            left: self.cast_to(left, to_left.into(), false),
            operator: operator.to_owned(),
            is_all,
            array: self.cast_to(array, to_array.into(), false),
            query_type,
        }))
    }

    fn compared_with_query(
        &self,
        kind: SubqueryKind,
        operator: &str,
        left: &'q Expr,
        subquery: &'q ast::Query,
    ) -> Node<'q> {
        let columns = self.column_types(&subquery.body);
        let fields: Vec<&'q Expr> = match left {
            Expr::Row(row) => row.fields.iter().collect(),
            left => vec![left],
        };
        let column =
            |at: usize| columns.get(at).copied().filter(|ty| *ty != Type::Unknown).unwrap_or(Type::Text);
        let left = fields.into_iter().enumerate().map(|(at, field)| {
            let right = (Node::Word(String::new()), column(at).into());
            let [left, _] = self.operands(operator, self.pair(field), right);
            left
        });
        query(kind, left.collect(), subquery)
    }

    fn condition(&self, expr: &'q Expr) -> Node<'q> {
        self.converted(expr, Type::Bool.into())
    }

    fn conditions(&self, exprs: &'q [Expr]) -> Vec<Node<'q>> {
        exprs.iter().map(|expr| self.condition(expr)).collect()
    }

    fn is_in(&self, test: &'q ast::In) -> Node<'q> {
        let list = match &test.set {
            InSet::Query(subquery) => {
                let kind = SubqueryKind::Any("=".to_owned());
                return negated(
                    self.compared_with_query(kind, "=", &test.operand, subquery),
                    test.is_negated,
                );
            }
            InSet::List(list) => list,
        };
        let operator = if test.is_negated { "<>" } else { "=" };
        let join = |left, right| match test.is_negated {
            true => Node::And(vec![left, right]),
            false => Node::Or(vec![left, right]),
        };
        let is_row = |expr: &Expr| matches!(expr, Expr::Row(_));
        let (with_columns, others): (Vec<&Expr>, Vec<&Expr>) = list.iter().partition(|one| has_column(one));
        let is_array = others.len() > 1 && !is_row(&test.operand) && !others.iter().any(|one| is_row(one));
        let array = is_array.then(|| {
            let ty = self.shared_type(others.iter().copied().chain([&test.operand]));
            let elements = others.iter().map(|one| self.converted(one, ty.into())).collect();
            let array_type: ColumnType = ty.array().unwrap_or(ty).into();
            let array = (Node::Array(elements, array_type), array_type);
            self.with_array(operator, test.is_negated, self.pair(&test.operand), array)
        });
        let rest: Vec<&'q Expr> = if is_array { with_columns } else { list.iter().collect() };
        let tests = rest.into_iter().map(|one| self.compared(operator, &test.operand, one));
        let all = array.into_iter().chain(tests);
        all.reduce(join).unwrap_or_else(|| Node::Word(String::new()))
    }

    fn like(&self, like: &'q ast::Like) -> Node<'q> {
        let escaping = match (like.kind, &like.escape) {
            (LikeKind::Similar, _) => Some("similar_to_escape"),
            (_, Some(_)) => Some("like_escape"),
            (_, None) => None,
        };
        let pattern = match escaping {
            None => self.pair(&like.pattern),
            Some(name) => {
                let arguments = [&like.pattern].into_iter().chain(&like.escape);
                let arguments = arguments.map(|argument| self.converted(argument, Type::Text.into()));
                (self.call_of(name, arguments.collect()), Type::Text.into())
            }
        };
        self.operation(like.operator(), self.pair(&like.operand), pattern)
    }

    fn between(&self, between: &'q ast::Between) -> Node<'q> {
        let (operand, low, high) = (&between.operand, &between.low, &between.high);
        let one = |low, high| match between.is_negated {
            false => Node::And(vec![self.compared(">=", operand, low), self.compared("<=", operand, high)]),
            true => Node::Or(vec![self.compared("<", operand, low), self.compared(">", operand, high)]),
        };
        match (between.is_symmetric, between.is_negated) {
            (false, _) => one(low, high),
            (true, false) => Node::Or(vec![one(low, high), one(high, low)]),
            (true, true) => Node::And(vec![one(low, high), one(high, low)]),
        }
    }

    fn explicit(&self, cast: &'q ast::Cast) -> Node<'q> {
        let Ok(target) = column_type(&cast.ty) else { return self.known(&cast.operand) };
        if let (Expr::Array(array), Some(element)) = (&cast.operand, target.ty.element()) {
            let element = ColumnType { ty: element, modifier: target.modifier };
            let elements = array.elements.iter().map(|one| self.cast_to(self.pair(one), element, true));
            return Node::Array(elements.collect(), target);
        }
        self.cast_to(self.pair(&cast.operand), target, true)
    }

    fn case(&self, case: &'q ast::Case) -> Node<'q> {
        let results = case.otherwise.iter().chain(case.branches.iter().map(|(_, result)| result));
        let ty: ColumnType = self.shared_type(results).into();
        let operand_type = case.operand.as_ref().map(|operand| match self.type_of(operand) {
            ColumnType { ty: Type::Unknown, .. } => Type::Text.into(),
            ty => ty,
        });
        let condition = |expr: &'q Expr| match operand_type {
            None => self.condition(expr),
            Some(operand) => {
                let [_, value] = self.operands("=", (Node::Word(String::new()), operand), self.pair(expr));
                value
            }
        };
        let branches =
            case.branches.iter().map(|(test, result)| (condition(test), self.converted(result, ty)));
        Node::Case(Box::new(Case {
            operand: case.operand.as_ref().map(|operand| self.known(operand)),
            branches: branches.collect(),
            otherwise: match &case.otherwise {
                Some(otherwise) => self.converted(otherwise, ty),
                None => Node::Constant(Constant { text: None, ty }),
            },
        }))
    }
}

/// The type that PostgreSQL's operator has where this program has one for varchar.
fn operand_type(operator: &str, ty: Type) -> Type {
    match ty {
        Type::Varchar if !has_operator(operator, ty.oid(), ty.oid()) => Type::Text,
        ty => ty,
    }
}

/// True if `||` takes values of a type as their texts, with no conversion.
fn is_taken_as_text(operator: &str, ty: Type) -> bool {
    operator == "||" && ty != Type::Unknown && ty.category() != 'S' && ty.element().is_none()
}

/// True if a function carries out a conversion; others relabel values, or go through their texts.
fn is_call(from: Type, to: Type) -> bool {
    let is_string = |ty: Type| matches!(ty, Type::Text | Type::Varchar);
    let is_reg = |ty: Type| ty == Type::Oid || ty.info().sql_name.starts_with("reg");
    let is_relabelled = is_string(from) && (is_string(to) || to == Type::Bpchar)
        || is_reg(to) && (is_reg(from) || from == Type::Int4)
        || to == Type::Int4 && is_reg(from);
    let is_array = matches!((from, to), (Type::Array(_), Type::Array(_)));
    // Bpchar, names, "char" and bool have functions that give texts.
    let gives_text =
        matches!(from, Type::Bpchar | Type::Name | Type::Char | Type::Bool) && to.category() == 'S';
    let takes_text = matches!(to, Type::Name | Type::Char) && is_string(from);
    let is_text = (is_string(from) || is_string(to)) && !gives_text && !takes_text;
    !(is_relabelled || is_array || is_text)
}

fn query<'q>(kind: SubqueryKind, left: Vec<Node<'q>>, query: &'q ast::Query) -> Node<'q> {
    Node::Query(Box::new(Subquery { kind, left, query }))
}

fn negated(node: Node<'_>, is_negated: bool) -> Node<'_> {
    if is_negated { Node::Not(Box::new(node)) } else { node }
}

fn words_of(test: &ast::IsBoolean) -> &'static str {
    match (test.value, test.is_negated) {
        (Some(true), false) => " IS TRUE",
        (Some(true), true) => " IS NOT TRUE",
        (Some(false), false) => " IS FALSE",
        (Some(false), true) => " IS NOT FALSE",
        (None, false) => " IS UNKNOWN",
        (None, true) => " IS NOT UNKNOWN",
    }
}

fn system_value(value: &ast::SystemValue) -> String {
    use SystemValueKind as V;
    let word = match value.kind {
        V::CurrentDate => "CURRENT_DATE",
        V::CurrentTime => "CURRENT_TIME",
        V::CurrentTimestamp => "CURRENT_TIMESTAMP",
        V::LocalTime => "LOCALTIME",
        V::LocalTimestamp => "LOCALTIMESTAMP",
        V::CurrentRole => "CURRENT_ROLE",
        V::CurrentUser => "CURRENT_USER",
        V::SessionUser => "SESSION_USER",
        V::User => "USER",
        V::CurrentCatalog => "CURRENT_CATALOG",
        V::CurrentSchema => "CURRENT_SCHEMA",
    };
    match value.precision {
        Some(precision) => format!("{word}({precision})"),
        None => word.to_owned(),
    }
}

/// True if an expression has a column in it.
fn has_column(expr: &Expr) -> bool {
    use std::ops::ControlFlow;

    use gnomon_parser::visit::Visitor;

    struct FirstColumn;

    impl Visitor for FirstColumn {
        type Break = ();

        fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Column(_) => ControlFlow::Break(()),
                expr => self.walk_expr(expr),
            }
        }
    }

    FirstColumn.visit_expr(expr).is_break()
}
