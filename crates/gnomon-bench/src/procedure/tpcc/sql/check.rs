//! The consistency conditions of clause 3.3.2 as queries, as [`crate::procedure::tpcc::check()`] words them.
//!
//! Promises: all twelve hold, or it is told which do not and where first. Each query has a row for each place where its
//! condition does not hold, which says so, in the order of the places. They see one snapshot.

use postgres::Client;

use crate::{
    procedure::tpcc::{
        Tpcc,
        check::{Counts, Failed},
    },
    report::Invariant,
    store::{
        Result,
        server::{TABLE_PREFIX as P, failed, transact},
    },
};

/// Checks that all conditions hold, and that the database has everything that was loaded and committed: so many
/// transactions of each kind.
///
/// # Errors
/// Those of the server.
pub(super) fn check(client: &mut Client, tpcc: &Tpcc, committed: &[u64]) -> Result<Invariant> {
    let mut reading = Reading(client);
    let mut failures = Vec::new();
    let mut counts = [0_i64; 3];
    transact(&mut reading, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", |Reading(client)| {
        for (condition, query) in (1..).zip(conditions(tpcc.delivered_per_district())) {
            let rows = client.query(&query, &[]).map_err(failed)?;
            if let Some(first) = rows.first() {
                let first = first.try_get(0).map_err(failed)?;
                failures.push(Failed { condition, count: rows.len() as u64, first });
            }
        }
        for (count, table) in counts.iter_mut().zip(["orders", "order_line", "history"]) {
            let row = client.query_one(&format!("SELECT count(*) FROM {P}{table}"), &[]).map_err(failed)?;
            *count = row.try_get(0).map_err(failed)?;
        }
        Ok(())
    })?;
    let [orders, lines, payments] = counts.map(i64::unsigned_abs);
    Ok(Counts { orders, lines, payments }.invariant(tpcc, Some(committed), &failures))
}

struct Reading<'a>(&'a mut Client);

impl AsMut<Client> for Reading<'_> {
    fn as_mut(&mut self) -> &mut Client {
        self.0
    }
}

/// The queries, in the order of the conditions. So many orders of a district are delivered at the beginning.
fn conditions(delivered_at_load: u32) -> [String; 12] {
    let of_district = "concat('district ', d_id, ' of warehouse ', d_w_id)";
    let of_order = "concat('order ', o_id, ' of district ', o_d_id, ' of warehouse ', o_w_id)";
    let of_customer = "concat('customer ', c_id, ' of district ', c_d_id, ' of warehouse ', c_w_id)";
    let paid_at_warehouse = format!(
        "(SELECT h_w_id, sum(h_amount) AS paid FROM {P}history GROUP BY h_w_id) AS h ON h_w_id = w_id"
    );
    let paid_at_district = format!(
        "(SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM {P}history GROUP BY h_w_id, h_d_id) AS h \
         ON h_w_id = d_w_id AND h_d_id = d_id"
    );
    let paid_by_customer = format!(
        "(SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM {P}history \
         GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id"
    );
    let orders_of_district = format!(
        "(SELECT o_w_id, o_d_id, count(*) AS orders, max(o_id) AS last, sum(o_ol_cnt) AS lines_of_orders \
         FROM {P}orders GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id"
    );
    let new_orders_of_district = format!(
        "(SELECT no_w_id, no_d_id, count(*) AS new_orders, max(no_o_id) AS last_new FROM {P}new_order \
         GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id"
    );
    let lines_of_district = format!(
        "(SELECT ol_w_id, ol_d_id, count(*) AS lines FROM {P}order_line GROUP BY ol_w_id, ol_d_id) AS l \
         ON ol_w_id = d_w_id AND ol_d_id = d_id"
    );
    let lines_of_order = format!(
        "(SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines, count(*) - count(ol_delivery_d) AS undelivered \
         FROM {P}order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l \
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id"
    );
    let delivered_to_customer = format!(
        "(SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM {P}orders JOIN {P}order_line \
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL \
         GROUP BY o_w_id, o_d_id, o_c_id) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id"
    );
    let deliveries_of_district = format!(
        "(SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS deliveries FROM {P}customer GROUP BY c_w_id, c_d_id) AS c \
         ON c_w_id = d_w_id AND c_d_id = d_id"
    );
    [
        format!(
            "SELECT concat('W_YTD of warehouse ', w_id, ' is ', w_ytd, ', D_YTD of its districts sum to ', ytd) \
             FROM {P}warehouse LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM {P}district GROUP BY d_w_id) AS d \
             ON d_w_id = w_id WHERE w_ytd IS DISTINCT FROM ytd ORDER BY w_id"
        ),
        format!(
            "SELECT concat('D_NEXT_O_ID of ', {of_district}, ' is ', d_next_o_id, ', the last order is ', last, \
             ', the last new order is ', last_new) \
             FROM {P}district LEFT JOIN {orders_of_district} LEFT JOIN {new_orders_of_district} \
             WHERE d_next_o_id - 1 IS DISTINCT FROM last OR d_next_o_id - 1 <> last_new ORDER BY d_w_id, d_id"
        ),
        format!(
            "SELECT concat('district ', no_d_id, ' of warehouse ', no_w_id, ' has ', count(*), ' new orders from ', \
             min(no_o_id), ' to ', max(no_o_id)) \
             FROM {P}new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*) \
             ORDER BY no_w_id, no_d_id"
        ),
        format!(
            "SELECT concat('O_OL_CNT of the orders of ', {of_district}, ' sum to ', lines_of_orders, \
             ', and ORDER-LINE has ', lines, ' of them') \
             FROM {P}district LEFT JOIN {orders_of_district} LEFT JOIN {lines_of_district} \
             WHERE lines_of_orders IS DISTINCT FROM lines ORDER BY d_w_id, d_id"
        ),
        format!(
            "SELECT CASE WHEN o_id IS NULL THEN concat('NEW-ORDER has ', no_o_id, ' of district ', no_d_id, \
             ' of warehouse ', no_w_id, ', which is no order') \
             WHEN no_o_id IS NULL THEN concat({of_order}, ' has no O_CARRIER_ID and is not in NEW-ORDER') \
             ELSE concat({of_order}, ' has O_CARRIER_ID ', o_carrier_id, ' and is in NEW-ORDER') END \
             FROM {P}orders FULL JOIN {P}new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
             WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL) \
             ORDER BY o_w_id, o_d_id, o_id"
        ),
        format!(
            "SELECT CASE WHEN o_id IS NULL THEN concat('ORDER-LINE has lines of order ', ol_o_id, ' of district ', \
             ol_d_id, ' of warehouse ', ol_w_id, ', which is no order') \
             ELSE concat({of_order}, ' has O_OL_CNT ', o_ol_cnt, ', and ORDER-LINE has ', coalesce(lines, 0), \
             ' of it') END \
             FROM {P}orders FULL JOIN {lines_of_order} WHERE o_ol_cnt IS DISTINCT FROM lines \
             ORDER BY o_w_id, o_d_id, o_id"
        ),
        format!(
            "SELECT concat({of_order}, ' has O_CARRIER_ID ', coalesce(o_carrier_id, 0), ', and of its ', lines, \
             ' lines ', undelivered, ' have no OL_DELIVERY_D') \
             FROM {P}orders JOIN {lines_of_order} \
             WHERE undelivered <> CASE WHEN o_carrier_id IS NULL THEN lines ELSE 0 END ORDER BY o_w_id, o_d_id, o_id"
        ),
        format!(
            "SELECT concat('W_YTD of warehouse ', w_id, ' is ', w_ytd, ', H_AMOUNT of its payments sum to ', paid) \
             FROM {P}warehouse LEFT JOIN {paid_at_warehouse} WHERE w_ytd IS DISTINCT FROM paid ORDER BY w_id"
        ),
        format!(
            "SELECT concat('D_YTD of ', {of_district}, ' is ', d_ytd, ', H_AMOUNT of its payments sum to ', paid) \
             FROM {P}district LEFT JOIN {paid_at_district} WHERE d_ytd IS DISTINCT FROM paid ORDER BY d_w_id, d_id"
        ),
        format!(
            "SELECT concat('C_BALANCE of ', {of_customer}, ' is ', c_balance, \
             ', OL_AMOUNT of what was delivered sum to ', coalesce(delivered, 0), \
             ', and H_AMOUNT of the payments to ', paid) \
             FROM {P}customer LEFT JOIN {delivered_to_customer} LEFT JOIN {paid_by_customer} \
             WHERE c_balance IS DISTINCT FROM coalesce(delivered, 0) - paid ORDER BY c_w_id, c_d_id, c_id"
        ),
        format!(
            "SELECT concat({of_district}, ' has ', orders, ' orders and ', coalesce(new_orders, 0), \
             ' new orders, and ', {delivered_at_load} + deliveries, ' were delivered') \
             FROM {P}district LEFT JOIN {orders_of_district} LEFT JOIN {new_orders_of_district} \
             LEFT JOIN {deliveries_of_district} \
             WHERE orders IS DISTINCT FROM coalesce(new_orders, 0) + {delivered_at_load} + deliveries \
             ORDER BY d_w_id, d_id"
        ),
        format!(
            "SELECT concat('C_BALANCE of ', {of_customer}, ' is ', c_balance, ', C_YTD_PAYMENT is ', c_ytd_payment, \
             ', and OL_AMOUNT of what was delivered sum to ', coalesce(delivered, 0)) \
             FROM {P}customer LEFT JOIN {delivered_to_customer} \
             WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0) ORDER BY c_w_id, c_d_id, c_id"
        ),
    ]
}
