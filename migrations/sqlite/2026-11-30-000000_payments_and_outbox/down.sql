DROP TABLE totals;
DROP TABLE attempts;
DROP TABLE outbox;
DROP TABLE payments;
