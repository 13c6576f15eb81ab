//! What an update of an index does.

use rereduce::view::index::Update;

use super::index_support::fresh;

// spec: VIEW-1
#[test]
fn an_index_has_the_rows_of_all_documents_after_every_change() {
    let scene = fresh();
    scene.query();
    for n in 0..23 {
        scene.put(&format!("d{:02}", n * 7 % 23), &format!("{{\"n\":[{n},{},\"x\"]}}", n % 3));
        if n % 4 == 0 {
            scene.query();
        }
    }
    scene.query();
    for n in 0..11 {
        scene.put(&format!("d{:02}", n * 5 % 23), &format!("{{\"n\":{}}}", n % 2));
        scene.delete(&format!("d{:02}", (n * 3 + 1) % 23));
        scene.query();
    }
    let scene = scene.again();
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 0, "all of it is in the file");
    assert!(scene.ids(Update::False).len() > 5);
}
