package status

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Alert rules and the dashboard use stable metrics, which the topic statistics documents. A panel
// has a title, an id of its own and a query.
func TestPackagedMetrics(t *testing.T) {
	topic, err := os.ReadFile("../../docs/statistics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"alerts.yml", "grafana.json"} {
		text, err := os.ReadFile("../../packaging/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bxetfs_\w+`).FindAllString(string(text), -1)
		for _, name := range names {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !strings.Contains(string(topic), "\n| "+name+" |") {
				t.Errorf("%s: %s is no documented metric", file, name)
			}
		}
		if len(names) < 9 {
			t.Errorf("%s: %d metrics", file, len(names))
		}
	}
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
			GridPos     struct{ X, Y, W, H int }
		}
	}
	text, err := os.ReadFile("../../packaging/grafana.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids, places := map[int]bool{}, map[[2]int]bool{}
	for _, p := range dashboard.Panels {
		place := [2]int{p.GridPos.X, p.GridPos.Y}
		if ids[p.ID] || places[place] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q at %v: %d queries", p.ID, p.Title, p.GridPos, len(p.Targets))
		}
		ids[p.ID], places[place] = true, true
	}
	if len(ids) < 10 {
		t.Errorf("%d panels", len(ids))
	}
}
