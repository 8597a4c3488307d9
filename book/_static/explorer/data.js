// Written by `python -m companion make explorer`, not by hand: its docstrings say what is in it.
// A number of `gains` or `levels` is two or three signs of `alphabet`, in base 90, plus the one before it:
// hundredths of a dB of loss, ten-thousandths of a dB of noise energy. `slow` has the levels of `rayleigh`.
globalThis.ADASCALE_DATA = {
 "delta": 1e-05,
 "nu": [
  0.005,
  0.005946,
  0.007071,
  0.008409,
  0.01,
  0.011892,
  0.014142,
  0.016818,
  0.02,
  0.023784,
  0.028284,
  0.033636,
  0.04,
  0.047568,
  0.056569,
  0.067272,
  0.08,
  0.095137,
  0.113137,
  0.134543,
  0.16,
  0.190273,
  0.226274,
  0.269087,
  0.32
 ],
 "scenarios": {
  "mnist": {
   "rounds": 500,
   "devices": 10,
   "rate": 0.01,
   "unit": 0.14450000000000002,
   "floorScale": 5.0945682298212244e-14
  },
  "cifar10": {
   "rounds": 720,
   "devices": 10,
   "rate": 0.08,
   "unit": 0.25,
   "floorScale": 2.0093598570584607e-13
  }
 },
 "typical": [
  0.00967166,
  0.0149619,
  0.0189666,
  0.0221385,
  0.0254142,
  0.030083,
  0.0340276,
  0.0377791,
  0.0410451,
  0.0463931,
  0.0538384,
  0.0615709,
  0.0727181,
  0.0833149,
  0.0986364,
  0.120395,
  0.163192,
  0.292085,
  0.47643,
  1.60758
 ],
 "alphabet": "!#$%&()*+,-./0123456789:;=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~",
 "gains": {
  "rayleigh": [
   [
    10981,
    ")b06,Z;O?q+>*B0u2M,Q-k.236(T0c0)-u0(.q31,z0|-e;4,v*P-()y-i*V2!,x9w,S*R&?8*#R0^.Z9R-l.%,I6R?.,W-p&_4!#p-i,3)G+H*V.X)9)v2C2x(N%m%;,2%#C?=w.k*]-B,A,V4K:(+&+&-4/q0=*S+n,w6q.t/f*2/h+X+n2T)W5k050}2Y.:.}3)84+Z3.=x-%6}1#,&0b0$/h-3.V-78.02,.(C(.,+/F/73q+C.[Be,S92-$*J1q1A(8/2+=-&,/1I.V.!(c&v3N-9)b/,.b-aAF6E+}+_0P*/.{+C0u;t771e)V&u-n(r0G:4!!&@,x2G*r*[3B2C.H7m2^(7.E/U)vAX)s&z.p7d+l0o*m,C0--@)_.9%!(k*36q,0/P=j/M-E/l9I4Z-t-65K+^&|+;1@,NFI5F4L1z(H1{,j*v(d.Z,r.^,d0s7J2`+Q0j/.1h*W;hAa-Z+*&b.0,h0C.b%R)40m,]0[0y-U>46e99/T0C0-*p*(3t-M2J,|AY1o)L1F.@0Z11.{,i)/,l*[-v&!&y--/b(v:D1D,W-!-1-o3()]/;1W0V3N)|8:0U/`%R,50v-R*E0.2#6(8(-c/a@E6:-+,|*z7{/U*-,Z3y0+8@-J.Q)h+l*D+F0o4z&5,31h?d,j,B.h.d(W1i7X2t,4&a.V,&Dr8A-DBi)y/l/z*B*:-B?`/Q4).?,&*R3a2x*=.m.e6t/),u,p.L??*47y+_+#.e1-1V2E,@/%*6,|0s0X1l+U647=6>)e+n.o)})&&l+}&g,w82,-032p*b4s1d)61X0Q)&/03(-_*94e0N@w+Y7?-tL3342U,3.q(H)},n09%d-R+R$u(A-:;J6w,7-l&@5f-b0R6l%a03,}(w8K-e,}7s./0j,6/U)4)9,u1z%h&B471y(p%}*W1}(G2f13@P-*9I(_5A9,1B25.G,_+T-V07*,3=;a/H2@>/+P)_7X,q224v*v*=+1*o*o.U9006*p3P3W)?,3)T/@1:06/x,~*y.7-_0_.e7d*A+a0w/&2x%>3W,#+f&i,Q2PBR3n.V&h(Y+y6^*o0@D=,?+>2O*j7i67?+*=(V>7*/*$0w(K$t6P(P8|6vCb,c-~5N,%+6*).w$_+!Ph0K.u2~0U.q/E*|(a1k%|)s+G0C=l&/2O0R7}.O3$9P6R+z+hB86,+{)M+aE?./(|4&.U,a*V3V*B)](y$~,O0i,l+a+@.$&f-L847*.?-u*m1&A!0S.2-z.v,}0n7w*w/E4|%r.{)P)V$U2,+cCo-zE(/Z1W7bLJ-j5,&=0?-P7|097Y4y+r1m%`1s0P+&&:5t,8)@+q&b=U.b-y.G2_-:+t+95v1N111737;i1!2n1F-H%Z*E04(E2;4=5X7c.e?%631d*(+42,1&?(6i-Z0n(?&s-R*t2a3C:x.e1;"
   ],
   [
    10595,
    "/j$-,H(A(g,+/[(w1%*@*]1%-p,C2A%T.t1w3m3C2=(32r1[5|!!5+6w-I.5/5%#/03q.V%5/U./747^99(J:R**00+f)@4N8PD[.[;L1(%W*f6!,74:33*t*Y0$(5%R+M%8-e,d*D*8*Q,!&i7a+/*d03/8+0.a)e*$*a)G7B0,$f)k&5+.*l)-+A#3/y;M+y1/-Y(84V-*,B+C6u.3&c1Q)q0{+T+i.627&w-j,S.k.C,N-0-x*r0L7`-&)h1z%:,T*|+|/i&y*:3#1~+D.m/L1,7x+D&s-&DF0[+6*i)#+7*g=/-p.w*.(I3:&C,N+s&Y*.B})T--2K2^*x*y,%0]Ah30-T-+#|+`0?,:+G-t9L/d*n2}14*j7&*/,X.l+H80+R.,-E0//700=F7O+9/%%F+}1I/5,k*h/=*[;W$m/Z-S.*)k:20/-[$I6)+6-|/z&P+K-;0/+#-}*4/H$>,L)F2N/Q5aAi265f*N,](N0@9j*+3g*7+m*r*h&*-}0Y.59h$(/Q(~*t&B-V.+3SD9&eAS*R-}/R0l.O2812)61s64)A/d-h.y.r-e%P/j426@3W9)74>~1r/*3_2$*w-O%T-l3l(f0>/25s&h)D9~&x.w6r0^,%1e:!7{*qB&0$.!-DDf4,&Z#9)9.{-{,/*/04(74w2#-v+80s*k/[2s*k,h)+2#;$,L1[)|+9-S7Q.q,a6e%P+4%X)F.z+`3P/.(2)B+u4Q)H-O(0*@,Q#*3T&+5>-r*Z/^+D2M+X)]*P*n8F*>$Q&o.g*|/f)q0Z+g)$0K)w/q./-+0A+c)l+1-&,.,s/!+:5=+_:S0p,75x)~%L6Z-D0x(/-]/_7]2|,W*#,q1**Y(L,@.!/[3l#x3|-C-n%x184(0_7/,%1%(o4k(2-5)/$F-x)61&*B-)(1-%;{.E.46$/[5>1c,F+~*M&W2B+45y&k+E*95=2;*e%J-l*F$z,e)`.?)R)S)x6w%a-~,07//4*m/l,Z&t/J,6):.{)%,(3V3S%B+V*I-q)*)i1&&N5,-M.M-g)l)A(a/5-|-C-a,1-=1$(Z+I,D,i,.1,*%-u0Q/>+y48=d-E+}8p/q:y(],T(c+8,T3$*y4Y-92]*(.5.r+N&s4A%O,r*B,U4#1=(A(O?03z*&.,3>-O*z)s&E0I++,q)f09,F.Z&m8*5R2()g7()-Af4?,T)P3;,h2&/Z)r1_+a(G*E2h-N-I/v,h(W0++(*6$Z)?)&%y-b#[)q*D*r-R.4#-;Y6D31,v504L5-:m+c&|02/h3..Q+I([/h20F6-$,m&m/Q(c/@,Y,[.!7B(f/Z+8(y2i)l/!,I(>1M(|.E*_/%)4+N*C5`,D-**Y.9*Y1,&4&n+?/w&14k6z%~7F)m@{#_2H2P0=-c9I%`:W?a9S&12`/w*[*m5*/S5Z&7#[*3,a-Z,y(x.T"
   ],
   [
    10953,
    "0w+S/C.)37/(=21n9r132d9>37(K3y/M*^2R/a-W3+*u.=.}1>4W,|.d/>0v-H8u0Z)7)W.:3#4j,b4G,_.]88*54s;V0t/d/=@!4C2P**/U/s.[9+,1.-/i&;.k*j7]3?/;*9,y.~3V37.M3=/O:/+2,{@50S&`&S*z*`B|&Y;3+p,N/f(w,O.m.})v2{738w/T+c19-~1=/]1w8f.80q**,R!!:T5+/|,h&|0@.q..G#,1,w-!4|0+1W0L/#.G2Y0f/5)$(_@_6].`3l,37&1h:$/|)~.v7X+$(!4Z6c-)*[)..|:D&T3/2^/Z-;8f3w6n-$,u1!5{.;8}4x/#*S@R9W,V*s-s/d1v3F526y-H1p%M)>3/9d.05V,N16*d/35T-W8%/z5B=;,H*++Z0C)n57.c/]/x0m3>+Z4z-^D};$/%5%>_.[,Z7&,P;Q>V/9+M/x2*-.Py-,2_+3(s((8a-i&I1*9x+_/Q1|,54}6B*L(AE[-)*F+{*I=t0H?f+)6S+>/s;A-(*2,e/C%@&b54-#6/;f0~0X(r3x4m0-&J)e.V/D.p,b%s1w0*)F9..3,h&k7x=h+j6[:>3Q+$1W*S1o5[-b0*+3Ld*y4J0M@-2!C8=|C[+w/e+y3s0V?C0^/^*+),+x1s2^0x/i/N6a2}+>Ga)l0m.~*L7-*R3:=*.e/R311=/u&(4?+*)B(P.y0..l2k2Q-**s.3-%--.31w9u2f(y(94T*j4-*d7o/Q-2-O1K9T+d.&9t26/b:p&Q/U18(n4)0X6q-J3b8*97.0-#0&/+&`-d)n@l*])x403:,[.?3>2+/e)]*(*/+X)O/k;!.F2{/~,Z+l(J&p)m.y5.0;62&>&$*y*r31+}+q>#@~-/,w.h-8/=-Q7u;_22-D3X-L3B.ABV,$4k:8-^1E6d,B+n,c=I=L.57;*Z-O1z0,55+{/z;-,W+w1*/%0O12&D3K,w1~.3.3(f+I7v1H8g0p-I0$,=2O8X8[&G1c->57.>+h8x0)1t+E1z@e3:,j1C5C@9*=,=0v/Y.T*s?E1i+t:12Z:E2l(S4m..7{2:1`26(f-W-)+Y.j.[/V-p.L0M3J7f%>7%)4)P2h*0*p+s,Z6S.[3y.v8ZIn,b&F.84Y1V8],o>8+z:N9[2~5J/[*w([/Q*I,1973),Q)FBP-W+r+#)7/+.o>!-{2K+8.m.L>q5b3A4V*B/?1o2Y7Z:b&;0.:c+dB]),/O0u)M/R.G)t$m,:2j01,f)}-x,U0T,(.S6E6&/36R&.4@BD$b64*c-=1y,./&2n.Q+94O1^+J+%3Z0k9P+S57.12A+&9m*2._.h*Z(C.j/P,a?G-s:_(o6u6}-H7^.404/vD(4J-}1S*u*W;)0n6e.F0_;0+q3o3h*A.V082)5^1s,C0e+o6R.!B`2X;9)F+=(I1+-V-62I+c+}"
   ]
  ],
  "rician": [
   [
    11049,
    "&}-?(^-{(]*(%t&b(M%J.W&#*V+|(Y(H(B-@1g(q$[*;,%7s2?(a$U1!),*f/(*-(Y*h!o*T(+-p(i%O*a+{#Y*z&w&C$K!3([+A,C%~&D$.%,)V)B%`*w*&(:%0(m&l(7)]%(.L&o$*%S&*,J!!%^)t%7)q);+s$Q&}*/)s/1){*Q%v$,(K,E)z(x,b3|(!)e+Y*8+Q&k(f&o*R)I({#m%k)!(J.?&u($&a(-,]#(*q%C#D%J+J*R*j)w+]%i+&%t(^(t*V(f))$I)L%+%x%T4S%U%,%(%w(q-8&!.3-3#o.@(z#5*u-:(u&0$f+%+I*%)k&6%f-40]&W(*&[%R)t%;&X+s(Z&?(-&U-T$7%x+{)T%31@!})k$O%:%r-(*W*[%{&H*W&[,B%+)|%d*r&0.^)K&j(=*j$o,E%m$q*i,q1N&%&p+[%2*S&e*y+`({&/%&(u$3&+,,,&(8)((G*S5t/Y--+z&Z)#.q-X03#j)*&%*!(/#)(i&4%|%R#o$l)^,5%^$))i&k,V%%.6%B)A))$x%s*8+(,1*|$]#g(i)m*i.c*~*;)S-C-2$m(g&V(Z((&t${).&u&O%G0&*9%F)3)j%r)X*0.k:%(`$h%N+C*7(!+A(W5S)f(D+A&20j%i)r&/+Z%v%[(X&~(G)N(t&7+T$g)i-@)j(y%9*R!l%^+J,c)7.C(:(L&O(h(p-i&C&x&|&}&1)[2>%*%n*Q(|)-({&!*D%P&M&5$?&O%X*H1z#g&;**&H([$Z)u*A&?*f({%^&M&c$l(5*}&N++&O.>&4#u+z2Q%7&.(X&S()%g%m#[&m,9,S-*#^%G$J(%#Y&L,v(1,K)Z.1*-7o*%%8,Z0_%]$>)4&#)_)##g(s-t&;%r-e&;%i*t/|)j,H%`+X(s-;(E+-*B)B);$9%4(v*w*Z)F&?*D+N+I(P)G%k&G%zCt*f,%(E)~+a&f$h#|)+%M%7-)&A$=&*&]&:1`,{&8&m)11r(o,A$x)M+,1d*J$}*/)_(y&]*3(7+&(w)n(T$~,-$Q$#%f)A(,*H&Y)+*j*(+n%|*r%;+C%y&:&`&:*t0H(O*g&I&d&U)j%F)?%p!P%b(N)(.?)x&o)>$!+K&Z(W5]&++2(=(E,x&I&//Q+m%a%$#w#/&J%d%&+^%C1I!A#%)A)6,t(=&O%R1I&k)Q&(+A$b$,%e+z/A&l$1%E(V*=%Z(y)J%H,R$o$;)v(k%)-H(v(0(4+@*x)u)E(L*C)Z)K%%+|(b&V(S&I(i%`)c&)&M(T*c)~.V(s+h*B+/)i+N*-)]3^$M?8%e)C1_*#(%.S#](X*N$W&K$~&$)#(%-R(e*+-6%n-6*Y%_&=*3&n%@,!)0(/)W0b)289%;(r)@&8/k2R+I*l$]*Y+9&S.G%}*D%}$Y%*%I$E/>..&?(Z%Q-f&2,~&m(z)a(b,j&b)]%9%N%d"
   ],
   [
    10556,
    "))$a)P)H.8+i45%L%f%k(_%!6d*p),-})A%v#~$I%F&O)|(d${18&$(v&K(P)=$a(2*n)g*X+W(I().9#{)!(%(%&_%I$8&+%])P&w(K1L)p%G(s%F)[)*,)/F.F+M%|,D$$$G%g+T$;&L(|$y%U((&d.3#b+Y&W&-&T-i-=&g)W-=-Y)~+@$N(A)P-A*C&D*W)+,2,`&r%j&T(*)7$a0(-Z2z$u&;(3&_)U(}(x)>*E,R+u((*?&P%z&I&d#a-J#C*j*R&/.A&+#j&N+Q([*I1)(I(6(3,O+i&r()*T&u*3${#w(q%X)V%y.G)h)o*6+#&a+n((0J%E-n(>%V)D*h)?(!&U&G&4#.+L,0*U$6&#)&+N)^&%)r)_)H4=06&E27(c+1&*$I)J*U$p&5&:&o+H-S)0)F%j&@)u%i(U+k+,)O&3*7,2-$*_+~(c+#09&s+F(l.>.u%k(G)W+[/(/c&))I%m)z.-(C(1&[+_)f%A*T&S,h&w*=-8*_*9/.,[&,*3+}.N.)$1&O)Y&~/f(f&r)~&`).%9&I/p%r(!(J%t(T-P&j%Z$((I&;+0/7-D&=-/*9(O*9%E(E)H&z,A*w&E#0+`-7$Q%{%Z*0-?(:)f&6.c&j(s*y+)+L%P)q$p(v&C(1%&*K(j*r1y+f)@*Q%n$r*~)A,%(I*Y&a(#);(^3_&n.9%W($*h&0$})/)x*O+%(d&>(u)D/L,c#0(p.}%q$0/m&3)/$?&U.g.u%*%n)6&x)((F(a(F&}&(*z)5(w(Z%I&s,Y)k)i)s)1(4$r&=&i,~,)(t(`(#)[*w,^$x%*#|(>+H)V$8$0%P(6$i)}0d*e*_/k(o+03q)6-_%l-c,@*A,M(g)9$P)v&V*5/1&k%,+y0{&N(>*U$S,D&6/-&^&+%?*i(0(M(X)c)y&Y(t+T(L%k(%.S&D.k)L*d7,)K-T$^%.%V)@&3#N%9*=(X(?&0=C*?,(+L)^)z%?)Y&g*]#p)h*J&{+^,!+L,D&O*^$9&:,Y&v&|&^$N-W+E*i0(*e&E0**{+6-B.s$r#H*Y)-&%$^0b$X(V+^)e%~#Z/^8?%r&x+I+.-+&G./+b&0$q%J)[(x#a(N$[#n*})&$]&E,b(}+L%p(V93,U&;(I()+:*p+*)5)]*c)2$|)7,p(q)x.Z+#*c-(-W#2&V-6&w#G*y)&)+/E&L+3,U)_(P)W#i)1,R(V&I(V)]-Y.D!]%X)q(u-0(E1K)A)a(E#w,c%=#z1[,5,L)),Z(*&$46(J)j$))m+/*4%d&m+v(t&7&1+P*l$l)H&i&s0F&e(%3),u)}-f%%!!*6,[$~.$&7/v$o+%&G%%+s%L-^)?+3),+~*})9)g+f29->(9&3);67.O%n%,#-)3&b)?(o#>(L&O)0)O$`([(I&r*C,l*$&o).-0%],!)&(W(y*q*](T,e-O((%4(4"
   ],
   [
    11164,
    "&x)$&T*6)P.*)6-])c%o-Y%G$u+^(C(@(r&+&|&|/V,C,:(P$x%7%,&x0G-B(u&G)F)Z+Q#f%c(?(%(?&t&j)/%q%?$@$%(V(m+d(+.`&9%Z+T1p%d(%(-*V.E)T*4(!%3-W!C&q(Z)7%]%r(p&3#G#S$3&-$X%W-4?s-i*1%C%T+7)A*U+1$j+>*^+q%U%}&T&o*a$Y$]&/)^$S*P#y+U&X(T&-%e%O+`%q&2$[-q)^*e&B*(28$8$%$l*;-k)[(V&F+r*Q,4.P+[%g(N&k.E)O&f,A(^-N&:%}&D(A%r(o#~&u%6(&&](V(G&H%^&S*M%/(_)2&?%V$a(W$|0:,x%U&T%;&y&D+K.I&](T&61n)3&,*E)T)$-{(6(5(2)I,R&p-T+a)q(t)i%I!l)L%J&3%=&|($((,2(C+e*C(l(S%A)L**&F(O(]&x%9%M$Y,5+X&X*h+{(s)K$`%r+*!!))#x+u%t$X*0-g#c-p&~%1*B*c*B&|$F)>+;%w%p*g/8*B,_(*&T)6,}-B)i*B&c*z&#,#&z%d-D(^%J&{)(%v(H*=07(6){)x&I)G%.$|0C%U***d&V(G+&&{([$X,s+C.f2;2w&!*Y--,]#v&L%E(?)m%J*N*-,{(z(Y%n/F&50F(4(C.d*d$t(m,h-E(?.&.J(g&b([$6+%$q%a(v(l(.%&)r%!$P(*&y#J&`&.)d&c&H(*)7#i+t&e%,,p+x%t(%(@&l!u$L(])v+#(3,d(P(A&_,Z%0&=-3)2)2%M+#$N*_5})*&z%{%[)6%J(&&;#z&b)4*D&5,G,_$=)])&25**(,(X%Q-?**-K*f%l*T+D&+&b%0&C)X3B&K#j-!)r%;*5,^.I(z)E,#(n(/+5%Z)Z${&~$;$,&V(~(8*A$g-m)?(I*S(..B(V$n0F%Q)I*P&R$w&a,y0W*z&5*]%D&M)`)N!S+X)]+P!x&]%8*o)V&g-8)()k*,$#+g&A%|,T%{$m&3(7)_%o.s%:-%(}#)&;&0(g-;1%(A0q&;%l%.(L([*z%],c-G$g(r$q#/-u&>%-%+%6)1$e(G$W#**#/Q,W(@&;$v+Z*g)4(2.0(T)H&r1H)a)^%R#w)$)e)s+r$V&s(u*S&f+~$K08+!+d+3&p)4$6)f)q)/(I*$%/(5$^)!#j(b(H(-(h%q(E(q(Y)~*>(>*>%=+v$u*p,]-0%8%u&Z&M$q/9&l$P%%*%&Y.J20%%%T-F$h+T)7*P&*)-(J(y*!)=#b*6#j+x$r1a%`(N)]%9()&}*|*J-g+m.(&H2~*R(9,k(.%G2a*F%v&],n/B%@1[-^*d%j$e&0*m&2.P(y9b,z+*-v),(B(!),$U+Z*+&i#Q(h+A$N&`%_%%$#(O.S+e(@5{(Y*h(_(+([%~%O%r$!&^)q+M$T#r&-%1$t(!$t)z(i+`$#,3$z)G&#)Z(J#q"
   ]
  ],
  "nakagami": [
   [
    11064,
    "3!2=,q!22-4K-_=oEq:z%u1,){2B-j*e1R/60G4m4o-v2^+Z?I4&&u5y4G*(7p6$(K4g/%(T6>+&0B&L&H250,+?-sC080>,&b&&5+9jTR=$5K2J016Y*2-O1!7/0T2u/a?G/.(G*~&E:01E,a8F7}*E,F%wBS,6-A4B2($vI{4e4U6i-p/w.U>v/^,M8:*s6G*j)[>22m2N,5=e6u*$)5/&=!(k.A/Z/|,M2p3P1K2k+t9`/C,u*U*d$q$E$`;|2&>Y1X3p4P=O/q/$5Z/;3[,10X3y-.2}%l:q:}/m?GIx;M7L/n.`+H>T1^8T)w6h-^)I6>1D+!1@2S)G/!2>)W4DIZ,F0.+T*N%F)t)$9_.2/l2Y)r=F10.C:mK&(8+]Ck-16=-A*s-r(~+;5L?)7}1y1t:A;PE[-D(?2.,s8U3,6J>H-],R121O/M.U-V9+9D+k/w&Q.Y1T+.:5934Z+e+|9#+z?r*A6u1n/~30.?,!/})]3@.E&6=d-J)g1;*/1r.)8C$l2;//02+*/W&23+0g0Z20/d.D/_2m1[D+2e1^%w1k)48KAU)A(H(C9M6U2!$l0Q1b$8/w1E/R+B/g)70i/r*Y,$1>/(.>.h+RXw3X3I+u6N3Q;$5@.F%l(e/N/i0r&E+.;rD54H0i1:7G7}+(&w*@A_+9=%7Q0|6s/T0u38/g(>/s&B,^)n5P%{#Z2K2m6K>$0P3T&a)?+Z5C8Y225,:5++.=416M:N.^-%:X&H;l0]-I1E0j+m-g&*+v/9.x8m5a(r.TF//])h)-(A15*q1`+f@n974&/I4!-.6&!!(M1r*j1?9*+R)s)j+g0>++/21oKy&l;{36+>.}6w*%A[&]-,,~,T.J>X02,N2f5)/b*U2m9/5U+1.x.@+D=$+K4_5s-q9}*!,-7E1*0r/G5;3j._+!)40z1_3#7&,7+/-_+t){07,h&j3^D@3E)o.n+t*V1r-f-o0>-c,H5I,b.)=A9,$d4k+T+I5i5Z.#3m,N>8&Y2O:w=w@%2d0!!X%b2+4G+{4S0X0^:RE76$(z)[H.;+3[4E=@&z1C+>$@H./Z.*%,%r.!%e,$/A0y0:-107)I.U6U1y?4/&2MV*7z/86|/L-`,u!!5^;=*l1n-Q#$:_-@6{04/Q$O6Y.k/s2j7%/h.c-5>?%.4+/9;PIA6q;`+?:I3x)8/{/C0H+N8&.Z*%46*!4M1n>L7,3=+R/S=x/!4f>O-X/V/G/A(f@m6O0Y,w8_-R1WOm&d/7$`UA8v-C)11},R$K7H>}/L.qCs3o1b;#5u%v)L*U)}1|Fc.v=]7j-w4):$6E.$?@681],Z0Q3_&D1v)Y2&A?/k+}.@.w,s)u11760`-,3/9H.w%o2~/R1:7-;*1h76,X8n,~/L3g/E$C1(0c8=.k4jB?0v8M+V-N*.8{)^.l1e>(?8)Q,Q0Y,7"
   ],
   [
    10580,
    "0k,l0^-z,B4/=!/4237h:};a6C0Q+04D#T222_*w6w&`Jt0s5Z176B.l:$03&95o8R,h/lC7F;Bo,c+U+{+$,y4;2:Hz2j-c(q,G/{$&=s2*,K+-)Y55,q,-232++y+s-f1#3,/:4=:*$f1+,*.O;U([+5-%-R+b752)+*8/3.,31_>?$X)>5V4b$D&H-;8`8V4O,z3g7>.x/4+W3~3Y&-*f9W4f-|-w3&2z=}(n3*@}-P5V/~6oKa-!,J57*Z,*0e>H.*7z9n2w3d/W4+.E3&.S.4+76M1`,*B06z+7-ZKe3O[_/E-Q5]&f.s4#/b;&.y2#+Y@`5D0;=-/]314@C].0NS20,N/J3W=p5T8&@f,(2U.=&v&a@:,U:?4G-F*:.11L5O(3)b0^-W6v)-6h-^(a0U>m6)(V4F32-|-JCN,]5-+k0K5Q-53R2q+x04*RCQ,))]2a14BJ$i-VAM62.;%f-,,R2L+V,>64(u814B+G4X?W016~C6#G1;8x8m4l)=;c-a+(*$9r?b-X=@-+=S:[,K-C?V+V0C37+**1,F0o..9Y8UBT)TII(u(D(f2Q400t+c?_!!6qW!:Q/.7$B3028s-I=#&a,J*H/b5k+C8~8G(x-f8{,y4z/F)b/8;B7~0b)c9t1X;))40xjA96)52z4>2U,0+(+f0T-h/8/C#N;c(B0u0%+61X0*/V&g2l7o.[/]*p1i-e0B/a(}4i+j5J.)981:-^06,JFd*h3D!v/R,31n&f2S11;#,q*h3i07+x2&.^9y4-7>0k5Y,$((AQ*L-9?n0T,I1X+E69.l1@#~0O-s7D)L3M5&3N,-D3-6#@5P/h+K20,35b+E7?1T-:251E/T00:O)&6r*V(r/~1M)[5s/i$P1f*q-X&/,C+c8j/3+7928^2O$k&4.7+!*[&p+A6L+Z.#H%-`,[.B4C8z14%d+q7n3w6X3t&h+C%U+W,T7H3[.-5U.n4J2..W(v*J)!/q:%4r4)6~Dm%_73;C.V7`=(*!0F6N+q15,(%t:H>-.3Eg3s-E/t/H74,**_)eG%2n:Z819e992`282z.}3+/|9s0D*y0=0K-?(?,+6S.}-16w314U.;D^*]*_-m+m.w*w6y+-D=0t3K9S4G3MFN,::`,i0D-T-X9q0Q5g,~)*.S/%+L(&1k9^7f/:03+!)P.17|0m$l/H2O/,;rLL.i/s7S;JPI.z4h+%(G,]F#&a.u,h6?83-n%q&S3[*~/0/t0k*;)+,@*q:Z(*)R$]-,*u0[0_58+M+{9p6v6@*S3R,L7e,DI*,i+j27-(4[4~2&!o-G=x:F2:+O0d;>Nn9O1A/r/B*$=Z,2(x0A8y@_)4>^1s3+6K0Z4+.J*?5=Ac/E@#)M:;,k4s/|,}3U(50z/e,d$b3#,_.z/E00?j172u-`;(@=5U0Q(y2T--.$*-4D3N;^"
   ],
   [
    11106,
    "0d6p(g76+jC}-P3{-73l11-0)$,>-n+F92AD%>7u11=R.;2N(o4&8;(,3d,?)N+4(D8t@c&z7;>{8F>|6%$r,J@j(1)v2).`0t/h3.2a+/8I.v+m3U6C*::o2/-E=i6-1=1|-*/>5>,Q/g:L-H40/.2N3!;@-{.2-A33,Q/-&>;s0l+W9g@V;j0Q2z-n+].a:T=m.A4X1J3k4/+a.>;G+f0Y-M,r$8-{)>6>-6*d4v0B4v>d#P(,1T,O07>G1~5)9G42(w/I.(/R-e2U8m/-/F184-,Y-3(t93,0.t8Z1_+0(q+p=50m-m7c0TM9>.-_*U1i$h.s6U(*/A1`/,?)3T-,4r,O+I7A&u.c)n.5&E,:,u=00X9J42*V0)0/*x/,;*,=9#-:1/-L0u*A91)o(Q&y,N>]&p,x5p,E)D7t277B%/%DHd7r,z0c6>.&+Z.[L5+0:s2R6O136c8+,D2N-BC}4h+M(+-m,w4*0;%r6|5`3G317~*JE903.*..5@/[2S7t20+?,#)q)Z6c5l/h2!2tJ](s3?,s3f/N0D+U0.6:(Z(l5&1F/K)68S1+.G0jFJ-+/]1U-P*X-8(f*lCm-V)]9..820.`/-?K,`#q;+1y*H00.n/;%,3[.{4{/n2e8G1!-G-R5B)61z5i(T.J320GIJ7B,a262q)//}9E&I1s6r)y)7+~.Z**+Q$r18/}G>%#3$2I9i8L,f5@:H#-5_%&*_&E(X,{/U2#&,*},)0}00;**Y0++!6L(5-E,*.p:w1s$n5x5Q.B.i62,;1V;l-R,#0n0+/!&o&o2u@Q0M3c-L?.Rc-L,}/V(i+,?~73:F/r2-/c/2/f0]2x:S.%(u7&/K)f=08A2c*d/J=%+%4i8D:;*`3B!!%l(`)n?M.`-c=05h-I4*#6/[657h1*0))B4C(R,g2?1a?+Ds2g6e-;0Q*F%N-6*SP0)^8m1k-4=i0Z-8,S*z15B^*r+`4x2N[>==.H&D1&,z>i/n)p/R&).42F)_4A/*021j-a63,=)}-(/8;F7s&b/7--A&,l/L&j3M-Q(o1`5=B88l6$,:*u2{3t0w+/+r8I@/4e=t+Z(t5!7v5{18L.;5Cs:C7.)z43?M$7=+*o0z*V+D(_*tFr%(1,0P(02X)0-&.$98+|+>1H4).U7)*>4p+Q+K-/GB:A+E(F0&MM=N=6&V0M7d$h*3.+.y2s?02j5!D]1z+x,_/#0@2S/70&-y4^Dw%n)D/-2O66(R,r,VNe%a:^-7,Z(?5o2t0XA33f-J({N^7,G_,h0Q6_8i,D.y5e:N+CD6(q&J.j+M+>+70M4HLUEK69/:._+51S2$:q/R2!3u/e4j)%#s@&;+2]/S0I(XEd?C:_;x+F888-F~/d0|,)@;+(1_5o-02@,!%{0@B0)t:>5N88(#5/5$/]),/05a6B#%>13T2h-u&G"
   ]
  ],
  "slow": [
   [
    10922,
    "*B)Q*m6A1l/i0@.K-~,x-O*C&o+x4B.;1B+90:,7/a.W-/720A*?+e-M/.9r09,X+8-/.S6r3t0`/&92>-4S::9a1P7A5t8~.[/)*;*^-}-w+;161c+d/Q3y6+FR1O5Z3/-{.D-{1P:B3i/K/h,H,#.31/6r;Y+!.m+M-G/^/u*K/6/L*r+E-%-U0S/N*7,:/G5CB!2w-q,|,f+I4r0q/:1/0./a211+2./}2*8I5_5x0W+G*N+)+s0R=&/%3!/9,T*v)`(5*&1/,g)s+@*@-/.27T8K2C-J4j170Q-o+:,.+%+d.r.G4-9u:l5!6@3T/&.n0V4C/#)m-n,!,).]*s,I*O-^.$.e4/;G/Q+#+e1O1|5!0@638a-o+K-2/I4;8k.80f*G+N01*G*l08260=2U08?=/a.~.1+-*,-P,G*D+q4?6C?#1u40/V*r0B,/.c9^9B;u=~0_9W>^M}5p30,7.j0w6&60H[63-{.#6)2]M->i:L*|)t-z+.(x4h6[,p+H4{001$4e+Z0G.50)+2,5*B-v,),G159H;x6s3w1d/f4L,t.L>X.:/j7W:h+|3r0x5;0H2M3x2r7B/e-J3!/V,O265r5>4b/G.F($+H+Y1]/l.A?B.n/t3W-7.S%^,I-E*G-0*[*d/q::/G070*3`2{/U-#(K2b/H+},`.3)+&]+M,1+T0C8m.(09+y***{,b*#0Z-U5D,h3x/}.n6Z2S5?7.E~9$RKGw19/p/$5>2r/:7|6:6E6-.R9&;02p6q2T:!.72P6f3b5W.;-u4p8p8p3{6-2[3Y5X/[.YARC%182N/U.).:-A,m,t,f9..!-S7.A]=t77603N1+(W++,B+F-^/M7K1F///N/]2=,Q-%2K-w0z0_8:.1,6*5+K4g._)S*D26/o/b;v/o;p/I-#171U.K&9$H%9!!$B&&(=+{,Y*;(%-p6`/B,X*5()%y)#(x(N,?0$.K-52g+P*i)C+6,#(|(#-*80.21T1C/}/N.].(.;0^,s+l1~,T,Q1u/1-J0o0;*$/[9P0#;P4o9$+r(7(B*w+G*&%9%5&a*b&Q$L%b%Q)`096W,i(e*P,Y?U2m+/+X*c/?)q)J+[1#.9,k,P.&=cEU9C/M3g2g3w/?,;4]+I6>1w@31u5D;(HD*G)A*f&]3^&X*C,J(3,E+U+E+i+B)k*f(v(h%m&h(d)@,80;=B4Z*s+q*b(b+`4K2f/]+1,a+P-@0n-B+x(1*$*e&_0)5y@T+z7*8x/|04/B637@1d.?2Y.61~;$2,+y4?*L3w0N.g/5*~(|+m,a,E0q8)-m-U/?/e.-1z/f-]383=3k3q6d*.)Z)F)-.f*$)~&*(z%|*5+[-R={0W+U/=4x*V-62:9g+^1b-&5>/=,7074;/f4U2//`1c-j,o+v&y)x(`(k*u,//o-k+>4B8qMH1a=o6U"
   ],
   [
    10307,
    "2|:[4d:m4k.v2`=t3P0w2B4@:h7e5C::;R9p>554,H-:-%4u7C/%/{-a.M3:345#5_8V/56A.b-,.v1i.Q8l5S0E-M,**0){*#+P-i+u,{2O.n/*/G1d0J6e;Z5A1G0(,73+;2:]5-4z2/7S0c/O+g)}+S&3&=+R-:1f.52S,m-s11/N6C0~5$2X:4.c1!4@L9Ap=K/f1>0f/21N4q8B4)2/7H4f21352&4p=d8$>B=47a5R:|2*.O2p1EMC3%8.0f0p4~6Y>Y4[:u80@t@z1n9O:z2i3z-a)I*0+)).+x)d+^*`+TAD9o/e1(-V-n2y15,$,81;+k+i-+.d.>+l.c+U(M(>(g);,7,y.c1~1p3^,Z1],8--,q3c1y.7/.)e*9*U,m2u/!.72x444u2p/&31/)-U+D)*)`:t2>9x8a;v/$0:CX586^2$?A4G9p1e4U,d-G-V.I/]4$8Z>u7u/`2AAM.r-J)b)}.Y0h7&-l.0-G-C-=.f*^.=.k5%1:/m+[+%,!-#,50T/s1O0f5P4M5?/u1j:k7iAe?e7I@a3i3f2R4!1i3=8g5J/|0T+U.,,Z+J,>,?-)-z0f.o241!468S/b/(.{4A6/4pBV1l/*-3*v/50D)Q1&1P5%2t7&,m,u/u3b3?2|+f2s345:;44T0^/~Ah6]:qBG6b50=IA=6T?F8A1T4E5%5.6Y6,9h-l-k.X1%1;-Z4u/j*L*7+h/L3iJn/Z.@-t1Z8o,])a4s+@)I.B-u.|.k451Q3#24.13Q/`1p2O4P/-0`7E1w+|-p///a2B11/$,J4E4C5BGE9M5;4Q/J0R1K,:*]*I+?-+-=5s131+,A.B+:-v-i3.1^.w-Z-k2G4o=s8B3e333u091l2i.}4!+&&&$]5`,A%T*+4s1(6Q+(-v5B0D0L9f4s+8*V+U/(,V2E02-e+2/K-0-3.O0&0F3q>!8s1~.U4A27,|-H*%+$.B./,_-.300-,f*@-R.~,b,%,r0p6`3L,C2*1c3=5Y3]11-12]1K.0.R+)4[484S.,)z(R&O*A7k1_*W,0/)-H.42x/-3K7?=x;c/z1s0-853X7X3]1|.@3p:]:p7s4M298u0-,O.[1@/v+Z3e2M@m..,q7m-,,i1m9`7>7F,O+f-U2-2P8T7$7e=H8~D>4+,b-B=(@B7T7,2P5%>49u2D2E.3.x.86)+B-|0..p-uA]5b-V*R*N-42+,g1J7@,}+G)o*p+j(4%E$?#o+{%=)a#`#$%M(g4u%o.d#V)f#8!!!J$d:c.M4j&E&P+a-[&[,$3+,8*L/$1m)D)X-b3R1h-W,t0.,2.f,I0&1d.&,--)5e7l530{641p/d.,0h1-:7.W2@/0-:.v:E1z843x/c126p8(;3:V3Q,5-[.b6z.B-L435n-82Q=r.Y2Q,]0t5l5@8+4q/%5U?%6M2l02,U"
   ],
   [
    11154,
    ".b1oB&4}7G5j0W/?*N/.1:3X,38l6a0-,D8LA#9w7,9)3n0T2n>L9V4%)e+v.F/$.k1m>A36>B5,-#-~4P3u4S-V/T,1*m*/.P.U/#0h>s.1,9,?0Y(p1k,F+>,P,[+w*?&0&G)M)%&r)8%%&V%k&2%8$Q$~#2!!$D*V.J/M)v(H)k!v%-0,+K*O*:(B#{2H&((/(O&o*G(z(Y(t-A2A-})o){(|(S%O$B%9$##M.K)4)9-8,@2%.6-t)Q+_//(&)R&q*!34F_+_,J/{.a*I*x+[)$%3%o#`&.%x-,,!3L-;)P,Y)C*_/F3!7J7U-E-=-r,u1t1[*U,/.w2`1[06+@)l*E/3/R,G-:,&0n2(5;2_/|*w0;/d0_-B-T0[,O%z*:$M0a%w((&c&{3C&x/^,642+J2_A,-n?oCW)s-J+(/A1o4!238b8{.p.5.T0A27:f6d.t3S6M2}G43;1%7F-O6T1o-_.V/`3m,E.Q=H7J6m08+5-f2G/-2q08/t-)-k,N)x-y+:(:%7!l%>#l+S$B)K,F/%,4*Z/x8j.L+@(L.;6;.b5j0B-1&a+D/a4JEJ127K4Y+R-C7H*7*O1S/B,X14.5&S7N#~$f%2&7)O,,*j&%&C&a(!+U)!([()&i-)&$0n.5?L90Hg9(6[.w(A&v+8%HC/)s&%1s,T,8,H2a,J(A-K+`8y2n:D2N46710d/h3K.t-d0D*:.R1y*80h6w.Z8V/m3$+E-&)[+M+U+@,,(z*]+T04,,)`&`/#/s0H+z*{2b+0-:6$*!-u/?3}0-/x8;5}2%*p0^2r1K.|3N4O*:.p/C/%-I(l,U3~-r,x4+-V-s)F5@1(KO*i/g:d-^.1/r.M+P.3)$$u$A!-#r#r$O(j#-#b&`/$,m)O)-)y(Q*3)=(O)n)p%T$p$m*l+,(4/g,{&0(2.#*$(y(C%>$$!}%9&C(Z+4).%y,R%U%f#R%]*Q,?,43M0h3a.K+-1/203F)I-`+e**&f*%4R0h-I*},a/94:.m*:,i0;2s19-I+C-7/Z0w9M+h*y-`*>+N+~+I4)6B+j-)&E%T$x#f$?$o$3(j/I)W)Z$e($*V-K)B,R(q(>)~BH*t(L%^(d&j3$-R/}-,*)5@+@*u+M21+j)l+C/%AO3?@C29:TA^;(IQ7V150%-:,Z(j(6)d,-2u2U3&,*){(),U*4({1l26;OB*1$1$1_1{/}5H)D+1-x0d1z+v+/(}/v0w=l+S(u&))6+O,:1?6y:[1Q,b-50Q0^,2,4*]*#)V%K(/*g031i,D,10>.}3T-t22(J+T(g&E&J*2$K&>%~(*&D&+(`(S+&+l*U(@+?)2/A-U2?*()%-..`*^*).N4s7/1s,h9!:pAY)O&e%.)8*E9B-])~)B*c&b-T/|/z7G.)+u&[1@0G1h(e(~*/(B(},J+p0^;J8c>];p5u+D&N"
   ]
  ],
  "antennas": [
   [
    10981,
    ")b06,Z3L)h$L*B&D,i,Q-k.2(N(T0c0)-u0(.q1>+L+y+6;4*.*P-()y-i)7*m+U+b,S*R&?1.#R)^.Z,|*D,F,I)v+d,W,$&_0A#p-i#A)G+H*V.X)9)v0M(T(N%m%;,2%#3r3#.k(z-B,A*)07-F+&+&)4/q&i*S&x,w6q*F/f)H/?+X+n2T)W.,05+r+(.:.&)r4.+Z2+*T-%6}&{*{-B(J,7-3$t-7&0+v,.(C(.,+/F+c0%+C,%&T)*92-$*J*Z,Q(8/2+=,p,/*%.V.!(c&v1C-9)b/,.b-a1C5>+}+_,J*/*N+C(i+#77+E)V&u)&(r&Y%W!!&@*d2G*r)w$x.v.H7m1n(7-{/U)v+])s&z-r7d)(0o*m,C0--@)_.9%!(k*3&y,0*,1++q-E/l&24(,p-65K+^&|+;1@,N3R,2*C1z(H%R);){(d*x+w.^,d0L7J)y+Q+F%(-n)/7L02-Z(k&b.0,h0C-Q%R)4*,,]0[0y-U)!-61F-e&k(G*p*((,*f)u,|:G)d)L1F.@0Z0A.{,i)/+8*[-v&!&y%S,=(v),(>&F-!-1-o.s)]//1W%O/8)|,n0U.`%R)^->-R*E0.2#)Y*u+./N1i5%*],|*z*r)&*-,Z,]*@%;,/,A(a+l*D+F*4&a&5(f1h,o(),>.h.d(W-97X-|+Y&a+G,&,_.6-D$K)y/l/z*B*:-B?`/Q2F.?,&&Y.s.6*=.m.e,V/),u,V.L+o*4.y+_+#.e1-(D2E*Z.4*6,|0s0X1l+U-2*x.s)e*I.o)}&R&l+}&g*3*H*x(w2p*b1F1d)6+3*a)&/0+_-_*9,7.D(R*]7?-t&034)o,3.q(H)},S09%d-R%7$u&q*M99+{,7-l&@,$-b0R)8%a03*P%&0h-e,}0c)A.U,6*r)4)9,u02%h&B0F,-(p%}*W-P(G-?)M0*-*+u(_-W/W1B/A.G,_+T-V07*,+R)./H2@73+P)_.>,q1C4v*v*=+1*o*;*8,@06*p3P.S)?,3)T*}.3/@#p,~*y(d-_.(.e29*A+a0w/&+V%>1-,#+f&i*M*@-43n)v&h$=)R05*o-e+4,?+>)i*j*t/M-^*=(V,W*/*$.^(K$t/,(P1m6v1[,c*B/_,%+6&+)8$_+!1.&^.82~0U.q/E*|(a-^%|)s+G0B.5&/,-0R*Z.O.z*?2F(D+h1B0,)t)M+a)I./(|-V.U,a*V3V*B)](,$~,O0i){+a+@.$&f-L4W1b.?-u*m*u%2(W+9)S._,}0n./*w/E4|%r,/)P)V$U,!+c1E-z+$,e/S-$,,,e*5&=0?-P7|(y3(,S+r0I%`)-+I+&&:/6,8)@+q&b3L.b+>*+2_-:+t+9*[%y.|,F37,d*i2n%!-H%Z)0-U(E.H0T5X-r.4.&231d*(+4*8+D49)s-Z0n$F&s&b*t(}+x&V.e1;"
   ],
   [
    10533,
    "0M$m*k)#)J,k+|)Z1f(!+@)d.S-%+2&7-n2Z4P-[2|(s/R.#.t!c+?&V)5.u/9%d*U,?)-%u/O.o(W*o+z)-(f*j0p,I&`-a--.!/?1>+G&:+I-;,w4v1`#K+=0e(u&5,0%x.H-G+&&q+4,c(L(:+o)X0s$h+p/D&|*e+D**0G&C%I*N&u+n&S)m,##s0]*7,]*:.=(x,2+t-$,%,v&M(F24*T+Z*o,L.v0H(Z+(-6/N/%+^-p*R+U1/8C#k*K&~%z-7+`)a0L(P*z)F1.*S..0/).(|,&(V)x0}1?+v+L)d*(+J46.S.E&[(S*+(%+O,V(=*n-3*7*T*~(*$v+])@1@-c,f,b-k$`,C-`,z*c*D*6/9+Q*:*9&S/.*o-;/O(N+G*/*2+@*M*.0p$R1~*y*;&),a*T.K+k+K/|+?)(%P&T.6.j*N)=0o%p%,1O+v,r+A(3,.%k,6+d.a%`.E$}-/*)-&-T5M)l2v6.+1-@)1+h&5&f+Z*w,P+U+K&j.a1=.@5o$h04)b+W($,l.k2T7e(H3|+5,|/11O/2/G12)v/04)&b!j+j)p*].H&3(U/97!%J3*,A2A,$.f0b)y*u.2&7.O)+)I0[.I+E(K*&/>([/Z&E/{&z/k,>.q+A0./S*F%^.M4l(>#y)]/_._,o)`-4(w)U.l)5&!$O*`0?)[+N($)k#:.=-%2?*`+y+)28/T-D7H&3+t&;*).3(}2P,A(g*$,X54*+.2(p+!-4#j-j&k%E.U+>0A,&&E,;*@*n+,67*}%4(R)H+#%q*T**,J)e-P*Z0T.o*}.x,F*O+q-g,n-V/c+z,,,B/(+.,w2l*b&/):.&/q(o.@0B,w3`-:*9+%-1+=)/-!.V-}-;$[)9.%+3&[1d.x.[(A)X1f)R*,$M**)c%).[)v+@+$-1$],{8m/((^/P/h*72F-),b)((:(a)?*=(N,():+J/g++&-&;+)%^)n*C.f*5*6*[)1&D.b+37o*i+P*(,#(W0-+6)z&p)f,h,%1x&$,9+,.T)j*L/h(14~.0*!(v*O*#)D*].`)3.D,q-|+7)>)o-&-L,],b*f)~-3/},])z/)*},a-K/[)c)@-7(U+Y,D3e$:5=-y3@*h.u/U(`(V5#&2-U+$)L3b1|%x)2(z2+*g.l.a.2+^*V((1,&{)`*I+~*f/3(N,i*M22*J.&)m>z4~-7*3,-*d*G0>*U0q*X)*+(#V%N.,0Y-K):0k+h)3%>)~)g&]+^$?)w+&+U.5.t#m),6G.B-Y,t5/5m.h,F(`0r0K08/4,,)?*#.Y1!-e(A(P/f)F/c-=-?.c.`)I(P+x)]0)*O*n&I&>+@)`/(+B/f)t,1+%/L-&-j)g.y+=,V!!(Q+~-q&q/Y7^&b5>*P1+$B3+)i0|.F*P&C(S,i5*&q,!(:&k+P5j,,6>&w$?*s+!,_-])[*k"
   ],
   [
    10900,
    "0e,-(?.U3n&W3&2H54&@3>,M+@)$-O(8+7/&+*.1,N+O-i/W+@08-V/>/t%t-~0/14)n*1.q/b.?-;/{-8/61[*l)k:Q.@0>/s3M*q.1*a0(0M.#6-*_+Q0C&r,p+D(W)y/r*p-S,H.Y/3/&3!0)5{%V-U,I)i(9(-+T+9+4(3;j(m-()j)Q-)/G/W*P0;/;*T0.&B/S.X-u&-2Q1?.o/**a-,!Y,14M0V-B(V0v/K.e)v,h-Q,[%m0b21+S+i,(-K1@/l)[)8;=,!,o+?,j4.2B-:,X*X*A82+[(Y4[-`-`+5)e/V/Y(.2d,P,W-r,8(^&I,F*Y-%6U.r+~+>/Z+-24:1&B+M*;0>-B3|,#6b*#2J&&)t3f*~.g+b-(1m+>*S6.-1,`0T.C+H,~*b,40y*H1)/=06,}1G-k,4,i-b..48.y-t1Q/5+Z,Y-*-k.&/p+|0R)G-?1Z-c-=+j(y(_8q.C(!.g(r,8.S2V,G4352+%(w.p-`*|,U+!8[-#@@+`.Y+t/Q-6-_*i-?.q%v(;1(-Z3W0V1X12)L/8._))(#*?/0/z.o-;&M2Q0a)|,p+e!!(E3a)(,D-&/y,]+[21+-2I65.;.@+j0W+S3g1$.r2Y0J-~+&,Q-d,S-$-V;{1707([)c)$*337.D.~,n7:3W+t-d*F/V,L+%.C*p0=.Y/?/j&a1s$4&_4u+a(>)*/R0e(y3E2)-a+M-*(8%r.j2Q3Z3@)S(p.3+D1A+>1P/L,q.)$W1@,>.$:?0R*h9?(+0/1o)H+b12)T+J.M*Z2]*a,_/5,W(9-g*H&g+6*R1D+S-5.u/{2b0?*6*_*f,2*),,2G.|3U.e+++])#(J*G,L,V0r4]&t&[+S+L1E,W,K/%3q-f-Q/B-o.(.+,s&o(f-z.@.%.@.w8n&!+7*X-(1{.K)d,H-=7w.9.l1K+4.)/=0c20,U0T;d-1,Q1a+U){1i&z3k-Q0>.j.j)@,!0U/)5Y+#.!0[,s*|/c.2&}/D-t1H#u,B6S0`-t+{2T/*0i-D1y5V-+*s,s1P03.V+M0k2C,N(j1(0:)I)-5G(j-#/|29.>)@+j-`,3(8*@*e.J/%/f4#+Z%t.])k**.}*g)4,M-40_,r/;/P*v.Z$,&|)/.*+_/Z,^,R,T-_3./^,?05+Q)5/6+!+m.v3`,z)|.P,Y,L+Z)n/b,76U.U3$+o/G/%1s1@0J*E*x/u&K.N,A3b&r0e+H)D/W)c0)0`*&/a.}*N%G)j,$/a+S*W.R-/1.,_-/-+1$/j,g&e+}54%;.p+=-C/n,e/^38/+)`.a27+F+].e(F.6,-4`)*.N+^.i*i+z/B+4(E/D0*-:.z.M,Q)I+h+V-~7n.k,z-n;u.].W**+O(),41H4&.w-4-(,K,e4B*w.k0o(g1S2M,y1?,I+o.Y6h32,J)|+s)!1b.0(c/!,=&X"
   ]
  ]
 },
 "levels": {
  "mnist": {
   "rayleigh": [
    [
     -144821,
     "!!!!Ee!iW#1[#Wv$!N$LE$v_%FC%sP&F0&vA(L()!G)XA*2t*l(+Is,)>,g@-Ix..).pg/Wq0AE"
    ],
    [
     -171184,
     "!!!!M`!yh#K?#zD$Nz%$-%Xt&29&j8(Fr)$,)a|*CJ+%L+h#,N)-5W-{M.fa/R00?o1-]1yM2j="
    ],
    [
     -141899,
     "!!!!E!!h-#/H#Tu#{^$Gb$q)%?r%l)&=i&l{(Ad(t!)Kw*$K*]W+9B+tg,Tg-6B-vQ.[5/BG0*$"
    ]
   ],
   "rician": [
    [
     -164936,
     "!!!!BX!ct#*$#O-#v;$CZ$o5%A2%qU&HG&}h(YY)7u)uZ*X]+>r,%3,lL-WR.E7/3J0!|0qd1dP"
    ],
    [
     -191026,
     "!!!!NW!|P#Pq$&`$]|%8j%t&&Te(7e(yx)b8*KP+6U,#:,oM-`!.Pg/CT06:1*n1|*2q|3hG4_="
    ],
    [
     -157843,
     "!!!!@8!_$!~P#Dg#hu$2&$ZC%(s%Uf&(|&Zc(2v(j])Gq*&Q*fS+Jp,1>,vj-b-.N2/;m0+o0y-"
    ]
   ],
   "nakagami": [
    [
     -135659,
     "!!!!G*!l3#5C#]Y$({$RO$}3%M,%z9&L`&|E(QF)&e)[G*4J*ko+GX,#e,`5-@&-}7.`f/DS0)Y"
    ],
    [
     -161829,
     "!!!!N-!zK#L$#zt$O%%#Q%W@&/N&e}(@s(y.)Vh*5f*s(+Tf,7d,x}-_R.F;/.6/t@0_R1Jk27&"
    ],
    [
     -134705,
     "!!!!Fa!kD#4-#Z{$%x$P&$zC%Is%v^&Ha&x!(L_(~])U|*.`*eg+A3+z#,X6-7k-ud.Wz/;R/}D"
    ]
   ],
   "antennas": [
    [
     -154555,
     "!!!!Ck!em#,1#Pw#w0$By$lE%:R%hL&::&k~(Bf(wQ)RD*/@*kE+LQ,/c,qt-X}.Bw/-V/vn0eV"
    ],
    [
     -181790,
     "!!!!Lu!xQ#Iz#y;$NT%$n%[1&6W&q+(Pe)2I)s0*Xr+AN,*s,r{-`^.Nh/?30/m0~Q1r/2f[3Zo"
    ],
    [
     -151517,
     "!!!!C!!d7#)f#MW#rq$=^$f#%3&%_p&0K&`y(5G(iq)CF)z~*Xd+8R+wG,[@-B5.)|.pT/[k0IY"
    ]
   ]
  },
  "cifar10": {
   "rayleigh": [
    [
     -106055,
     "!!!!>.!Y)!us#6W#U5#tn$8L$Z/$|y%Dt%j$&3I&[+((-(RQ(~?)OX)~C*R`+(S+[},5&,lf-I%"
    ],
    [
     -137199,
     "!!!!Cv!eu#,!#P;#uh$@O$hR%4u%``&/r&^T(0e(bK)7g)l]*F.*}9+Z!,8F,uE-V{.:-.{l/b|"
    ],
    [
     -102712,
     "!!!!=[!X%!t=#4H#RK#qI$4G$UH$wO%>c%c)&+`&RR&za(H2(s))CH)q6*DT*uH+Kp,!s,YS-4l"
    ]
   ],
   "rician": [
    [
     -122737,
     "!!!!7M!Mv!eH!}%#9t#U&#q]$2e$RJ$ss%:2%`J&*i&T;(#((R6)%l)Yq*3G*lK+Jy,+p,l&-QM"
    ],
    [
     -155358,
     "!!!!?Z!]e!|K#At#e2$-I$Tg$~7%M}%|,&P_(&a(^3)94)t`*UR+8d+{+,cV-L|.82/%!/q@0a{"
    ],
    [
     -114424,
     "!!!!61!K5!a4!w3#2=#KU#f*$#|$BA$a9%#r%G:%kV&4v&^E(,*(Y.),W)_P*6v*np+L9,,,,k@"
    ]
   ],
   "nakagami": [
    [
     -98136,
     "!!!!@)!]v!{W#?(#_J$!c$Eu$i(%06%UH%{_&F~&oL(=)(gs)6t)e/*6_*gM+;X+o$,Fn,{{-VM"
    ],
    [
     -128673,
     "!!!!EQ!h}#0N#U~#|Y$H>$q/%?0%jC&9k&hN(:J(kb)A;)t3*LL+%*+^),9K,t2-S:.3d.rO/UV"
    ],
    [
     -96895,
     "!!!!?a!]-!zF#=N#]J#}>$C*$ep%,X%QD%w5&B/&j4(6I(an)0K)^?*/K*_t+3]+ff,>2,r|-M1"
    ]
   ],
   "antennas": [
    [
     -114278,
     "!!!!:~!Tk!oJ#-|#JM#gz$)Q$I4$j(%/4%R`%wS&At&im(6E(b`)2h)bd*6Z*jQ+CL+zN,WY-6n"
    ],
    [
     -146631,
     "!!!!Ar!aq#%(#HU#lF$4_$[I%&j%Ql%}V&O0&~](T()+Q)b!*=Y*w>+W*,8y,yp-`d.HM/2!/z8"
    ],
    [
     -110814,
     "!!!!:Q!Sk!mt#+p#Ge#dV$$J$DF$dP%(m%KI%oF&7j&_c(+4(UE)$?)S(*%d*XA+/z+f_,BJ,|@"
    ]
   ]
  }
 }
};
