// Package monitor tests what people watch xetfs with. A headless Chromium opens the status page
// and the pages of --html. Promtool checks metrics, dashboard and alert rules. The script run
// installs both. Without the flag -monitor, the tests are skipped.
package monitor
