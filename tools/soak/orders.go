package main

import (
	"encoding/json"
	"strconv"
	"time"
)

// orders is a pipeline of nested events, without references.
var orders = pipeline{
	name: "orders", topic: "soak.orders", partitions: 3, perSecond: 60,
	make: func(m *maker, now time.Time) event {
		key, k := m.next()
		items := make([]string, m.rng.IntN(5))
		for i := range items {
			items[i] = "item, \"" + strconv.Itoa(i) + "\" ☃"
		}
		return seal(key, k, map[string]any{
			"id": key, "amount": json.Number(cents(int64(m.rng.IntN(100_000)))), "items": items,
			"buyer":     map[string]any{"name": "buyer " + strconv.Itoa(m.rng.IntN(50)), "new": m.rng.IntN(2) == 0},
			"placed_at": m.time(now).UnixMilli(),
		}, "placed_at", "amount")
	},
	numberField: "amount", timeField: "placed_at", badTime: "wrong type",
	parse: func(value []byte) (r row, err error) {
		var e struct {
			ID     string      `json:"id"`
			Amount json.Number `json:"amount"`
			Items  []string    `json:"items"`
			Buyer  struct {
				Name string `json:"name"`
				New  bool   `json:"new"`
			} `json:"buyer"`
			Time int64 `json:"placed_at"`
		}
		if err = json.Unmarshal(value, &e); err != nil {
			return row{}, err
		}
		amount, err := parseCents(e.Amount.String())
		return row{id: e.ID, amount: amount, items: int64(len(e.Items)), buyer: e.Buyer.Name, isNew: e.Buyer.New, at: time.UnixMilli(e.Time).UTC()}, err
	},
	columns: []string{"id", "amount", "items", "buyer", "is_new", "epoch_us(placed_at)"},
	cells: func(r row) []string {
		return []string{r.id, cents(r.amount), strconv.FormatInt(r.items, 10), r.buyer, strconv.FormatBool(r.isNew), micros(r.at)}
	},
	models: []model{{
		name: "minutely", keys: 1,
		columns: []string{"epoch_us(minute)", "orders", "amount", "items", "new_buyers"},
		group:   func(r row) []string { return []string{micros(r.at.Truncate(time.Minute))} },
		aggregate: func(rows []row) []string {
			var amount, items, newBuyers int64
			for _, r := range rows {
				amount += r.amount
				items += r.items
				if r.isNew {
					newBuyers++
				}
			}
			return []string{strconv.Itoa(len(rows)), cents(amount), strconv.FormatInt(items, 10), strconv.FormatInt(newBuyers, 10)}
		},
	}},
}
