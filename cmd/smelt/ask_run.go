package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// toRun is the client for smelt run's pages. It uses no proxy and follows no redirects, because requests carry the
// token.
var toRun = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// errNobody means that no server answers at the address of smelt run.
var errNobody = errors.New("no smelt run answers")

// runAddress is where smelt run answers: SMELT_HTTP, or the port that the process of this state folder has chosen.
func (s *settings) runAddress() (string, error) {
	if _, port, err := net.SplitHostPort(s.HTTP); err != nil || port != "0" {
		return s.HTTP, nil // what is wrong with it, who asks there says
	}
	run, err := find(s.Home, "run")
	if err == nil && run.address == "" {
		err = fmt.Errorf("%w: none that has got going is on the state folder %s, and SMELT_HTTP (%s) leaves the port to it", errNobody, s.Home, s.HTTP)
	}
	return run.address, err
}

// askRun requests a page of smelt run. A reply of another program is an error, and so is "not ready".
func (s *settings) askRun(ctx context.Context, path string) (*http.Response, error) {
	address, err := s.runAddress()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	if s.HTTPToken != "" {
		request.Header.Set("Authorization", "Bearer "+s.HTTPToken)
	}
	response, err := toRun.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", errNobody, address, err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusServiceUnavailable:
		return response, nil
	case http.StatusUnauthorized:
		err = fmt.Errorf("smelt run on %s wants another SMELT_HTTP_TOKEN than is set here", address)
	default:
		err = fmt.Errorf("%s: %s: is something else there than smelt run? say where that is with SMELT_HTTP", request.URL, response.Status)
	}
	return nil, errors.Join(err, response.Body.Close())
}
