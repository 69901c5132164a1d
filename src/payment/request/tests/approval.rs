use super::*;

fn approve(body: &str) -> Payment {
    let mut next = 0;
    accept(body).approve("shop", Uuid::nil(), DateTime::UNIX_EPOCH, || {
        next += 1;
        Uuid::from_u128(next)
    })
}

#[test]
fn what_was_left_out_comes_from_the_templates() {
    let payment = approve(&notifying(
        r#"{"channel":"sms","to":"01012345678"},{"channel":"fcm","to":"token"}"#,
    ));
    let [sms, fcm] = payment.notifications.as_slice() else {
        panic!("two notifications: {payment:?}");
    };
    assert_eq!((sms.id, fcm.id), (Uuid::from_u128(1), Uuid::from_u128(2)));
    assert_eq!(sms.payload.title, None);
    assert_eq!(
        sms.payload.body,
        "15,000원 결제가 승인되었습니다.\n주문번호: order-1"
    );
    assert_eq!(fcm.payload.title.as_deref(), Some("결제 승인"));
    assert_eq!(fcm.payload.body, "15,000원 결제가 승인되었습니다.");
}

#[test]
fn what_was_given_is_sent_as_it_is() {
    let payment = approve(&notifying(
        r#"{"channel":"sms","to":"01012345678","title":"LMS","body":"{{ amount }}"},
           {"channel":"fcm","to":"token","body":"b","data":{"k":"v"}}"#,
    ));
    let [sms, fcm] = payment.notifications.as_slice() else {
        panic!("two notifications: {payment:?}");
    };
    assert_eq!(sms.payload.title.as_deref(), Some("LMS"));
    assert_eq!(sms.payload.body, "{{ amount }}");
    assert_eq!(fcm.payload.title.as_deref(), Some("결제 승인"));
    assert_eq!(fcm.payload.body, "b");
    assert_eq!(fcm.payload.data["k"], "v");
}

#[test]
fn the_payment_keeps_what_was_said() {
    let payment = approve(&with(&[("locale", r#""en-GB""#), ("currency", r#""USD""#)]));
    assert_eq!((payment.client.as_str(), payment.id), ("shop", Uuid::nil()));
    assert_eq!(payment.created_at, DateTime::UNIX_EPOCH);
    assert_eq!(payment.locale.as_deref(), Some("en-GB"));
    assert_eq!(
        payment.notifications[0].payload.body,
        "$150.00 paid.\nOrder: order-1"
    );
}
