//! Reading payments for the client that posted them.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::dispatch::on_either;
use super::rows::{NotificationRow, PaymentRow};
use super::schema::{outbox, payments};
use super::sql_types::Id;
use super::{Store, StoreError};

/// A payment with the notifications that are still there.
pub type PaymentView = (PaymentRow, Vec<NotificationRow>);

impl Store {
    /// A client's payment; another client's is not there.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn payment(
        &self,
        client: String,
        id: Uuid,
    ) -> Result<Option<PaymentView>, StoreError> {
        let found: Vec<PaymentRow> = on_either!(self, |conn| {
            payments::table
                .filter(payments::id.eq(Id(id)))
                .filter(payments::client.eq(&client))
                .select(PaymentRow::as_select())
                .load(conn)
                .await
        })?;
        Ok(self.with_notifications(found).await?.pop())
    }

    /// A client's payments of one order, newest first, `before` excluded.
    ///
    /// # Errors
    /// Any of the database.
    pub async fn payments_of_order(
        &self,
        client: String,
        order_id: String,
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<PaymentView>, StoreError> {
        let before = Id(before.unwrap_or(Uuid::max()));
        let found: Vec<PaymentRow> = on_either!(self, |conn| {
            payments::table
                .filter(payments::client.eq(&client))
                .filter(payments::order_id.eq(&order_id))
                .filter(payments::id.lt(before))
                .order(payments::id.desc())
                .limit(limit)
                .select(PaymentRow::as_select())
                .load(conn)
                .await
        })?;
        self.with_notifications(found).await
    }

    async fn with_notifications(
        &self,
        found: Vec<PaymentRow>,
    ) -> Result<Vec<PaymentView>, StoreError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Id> = found.iter().map(|payment| payment.id).collect();
        let mut notifications: Vec<NotificationRow> = on_either!(self, |conn| {
            outbox::table
                .filter(outbox::payment_id.eq_any(&ids))
                .order(outbox::id)
                .select(NotificationRow::as_select())
                .load(conn)
                .await
        })?;
        Ok(found
            .into_iter()
            .map(|payment| {
                let own = |row: &mut NotificationRow| row.payment_id == payment.id;
                let rows = notifications.extract_if(.., own).collect();
                (payment, rows)
            })
            .collect())
    }
}
